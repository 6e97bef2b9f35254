// Prints what ZooKeeper's own Java code says, as JSON: the facts that the unit tests hold against.
//
// To make the file anew (any JDK from 11; the jars are those of ZooKeeper and of its jute):
//
//     java -cp zookeeper.jar:zookeeper-jute.jar:slf4j-api.jar GoldenZooKeeper.java > zookeeper-3.8.0.json

import java.io.ByteArrayOutputStream;
import java.lang.reflect.Field;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.jute.BinaryOutputArchive;
import org.apache.jute.Record;
import org.apache.zookeeper.CreateMode;
import org.apache.zookeeper.KeeperException;
import org.apache.zookeeper.MultiOperationRecord;
import org.apache.zookeeper.MultiResponse;
import org.apache.zookeeper.Op;
import org.apache.zookeeper.OpResult;
import org.apache.zookeeper.Watcher;
import org.apache.zookeeper.ZooDefs;
import org.apache.zookeeper.common.PathUtils;
import org.apache.zookeeper.data.ACL;
import org.apache.zookeeper.data.Id;
import org.apache.zookeeper.data.Stat;
import org.apache.zookeeper.proto.*;
import org.apache.zookeeper.server.auth.DigestAuthenticationProvider;

public class GoldenZooKeeper {
    static final String[] PATHS = {
        "/", "/a", "/a/b", "/a b", "/ ", "/a.b", "/a..b", "/.a", "/..a", "/a.", "/a..", "/...",
        "/a/...", "/.../a", "/a/.b/c", "/ä/ö", "/日本", "/a:b,c", "/\u00a0", "/\u2028", "/\u200b",
        "", "a", "a/b", "//", "//a", "/a//b", "/a/", "/a/b/", "/.", "/..", "/./a", "/../a", "/a/.",
        "/a/..", "/a/./b", "/a/../b", "/\u0000", "/a\u0000", "/a\nb", "/a\n", "/\u007f", "/\u0085",
        "/\ue000", "/\ufffd", "/\ufeff", "/\ud83d\ude00", "/a/\ud800\udc00/b", "/\ud800",
    };

    public static void main(String[] args) throws Exception {
        Map<String, String> top = new LinkedHashMap<>();
        top.put("codes", object(codes()));
        top.put("operations", object(constants(ZooDefs.OpCode.class)));
        top.put("permissions", object(constants(ZooDefs.Perms.class)));
        top.put("create_modes", object(createModes()));
        top.put("event_types", object(eventTypes()));
        top.put("watcher_types", object(watcherTypes()));
        top.put("refused_characters", refusedCharacters());
        top.put("paths", object(paths()));
        top.put("digests", object(digests()));
        top.put("records", object(records()));
        System.out.println(object(top));
    }

    static Map<String, String> codes() {
        Map<String, String> map = new LinkedHashMap<>();
        for (KeeperException.Code code : KeeperException.Code.values()) {
            map.put(code.name(), "" + code.intValue());
        }
        return map;
    }

    static Map<String, String> constants(Class<?> holder) throws Exception {
        Map<String, String> map = new LinkedHashMap<>();
        for (Field field : holder.getFields()) {
            map.put(field.getName(), "" + field.getInt(null));
        }
        return map;
    }

    static Map<String, String> createModes() {
        Map<String, String> map = new LinkedHashMap<>();
        for (CreateMode mode : CreateMode.values()) {
            map.put(mode.name(), "[" + mode.toFlag() + "," + mode.isEphemeral() + ","
                + mode.isSequential() + "," + mode.isTTL() + "]");
        }
        return map;
    }

    static Map<String, String> eventTypes() {
        Map<String, String> map = new LinkedHashMap<>();
        for (Watcher.Event.EventType type : Watcher.Event.EventType.values()) {
            map.put(type.name(), "" + type.getIntValue());
        }
        return map;
    }

    static Map<String, String> watcherTypes() {
        Map<String, String> map = new LinkedHashMap<>();
        for (Watcher.WatcherType type : Watcher.WatcherType.values()) {
            map.put(type.name(), "" + type.getIntValue());
        }
        return map;
    }

    static boolean accepts(String path) {
        try {
            PathUtils.validatePath(path);
            return true;
        } catch (IllegalArgumentException refused) {
            return false;
        }
    }

    static String refusedCharacters() {
        List<String> ranges = new ArrayList<>();
        int first = -1;
        for (int c = 0; c <= 0x10000; c++) {
            boolean refused = c < 0x10000 && !accepts("/a" + (char) c + "b");
            if (refused && first < 0) {
                first = c;
            } else if (!refused && first >= 0) {
                ranges.add("[" + first + "," + (c - 1) + "]");
                first = -1;
            }
        }
        return "[" + String.join(",", ranges) + "]";
    }

    static Map<String, String> paths() {
        Map<String, String> map = new LinkedHashMap<>();
        for (String path : PATHS) {
            map.put(path, "" + accepts(path));
        }
        return map;
    }

    static Map<String, String> digests() throws Exception {
        Map<String, String> map = new LinkedHashMap<>();
        for (String text : new String[] {"super:test", "u:", "u:a:b", "ä:ö"}) {
            map.put(text, quote(DigestAuthenticationProvider.generateDigest(text)));
        }
        return map;
    }

    static Map<String, String> records() throws Exception {
        Stat stat = new Stat(0x101L, 0x202L, 1303L, 1404L, 5, 6, 7, 0x1000000000000808L, 9, 10, 0xb0bL);
        byte[] data = {1, 2, 3};
        byte[] password = new byte[16];
        Arrays.fill(password, (byte) 7);
        List<ACL> acl = Arrays.asList(
            new ACL(ZooDefs.Perms.ALL, new Id("world", "anyone")),
            new ACL(ZooDefs.Perms.READ | ZooDefs.Perms.DELETE, new Id("auth", "")));
        List<String> names = Arrays.asList("x", "ä-0000000001", "");
        List<String> none = Collections.emptyList();

        Map<String, String> map = new LinkedHashMap<>();
        // Before 3.10 the flag `readOnly` is no part of these records: it is written behind them.
        put(map, "ConnectRequest", new ConnectRequest(0, 0x55L, 10000, 0x1234L, password));
        put(map, "ConnectResponse", new ConnectResponse(0, 8000, 0x1234L, password));
        put(map, "RequestHeader", new RequestHeader(7, ZooDefs.OpCode.getData));
        put(map, "Create", new CreateRequest("/a", data, acl, 3));
        put(map, "CreateTTL", new CreateTTLRequest("/a", data, acl, 5, 60000L));
        put(map, "Delete", new DeleteRequest("/a", -1));
        put(map, "Exists", new ExistsRequest("/a", true));
        put(map, "GetData", new GetDataRequest("/a", false));
        put(map, "SetData", new SetDataRequest("/a", data, 4));
        put(map, "GetACL", new GetACLRequest("/a"));
        put(map, "SetACL", new SetACLRequest("/a", acl, 2));
        put(map, "GetChildren", new GetChildrenRequest("/a", true));
        put(map, "GetChildren2", new GetChildren2Request("/a", false));
        put(map, "Sync", new SyncRequest("/a"));
        put(map, "Check", new CheckVersionRequest("/a", 3));
        put(map, "AddWatch", new AddWatchRequest("/a", 1));
        put(map, "RemoveWatches", new RemoveWatchesRequest("/a", 3));
        put(map, "SetWatches", new SetWatches(0x77L, names, none, Arrays.asList("/c")));
        put(map, "SetWatches2", new SetWatches2(
            0x77L, names, none, Arrays.asList("/c"), Arrays.asList("/p"), Arrays.asList("/r", "/s")));
        put(map, "AuthPacket", new AuthPacket(0, "digest", "u:p".getBytes()));
        put(map, "GetEphemerals", new GetEphemeralsRequest("/a"));
        put(map, "Multi", new MultiOperationRecord(Arrays.asList(
            Op.check("/a", 3),
            Op.create("/b", data, acl, CreateMode.EPHEMERAL_SEQUENTIAL),
            Op.create("/t", data, acl, CreateMode.PERSISTENT_WITH_TTL, 60000L),
            Op.setData("/c", data, -1),
            Op.delete("/d", 0))));

        put(map, "ReplyHeader", new ReplyHeader(7, 0x99L, -101));
        put(map, "WatcherEvent", new WatcherEvent(4, 3, "/a"));
        put(map, "CreateReply", new CreateResponse("/a0000000001"));
        put(map, "Create2Reply", new Create2Response("/a0000000001", stat));
        put(map, "StatReply", new SetDataResponse(stat));
        put(map, "DataReply", new GetDataResponse(data, stat));
        put(map, "ACLReply", new GetACLResponse(acl, stat));
        put(map, "NamesReply", new GetChildrenResponse(names));
        put(map, "ChildrenReply", new GetChildren2Response(names, stat));
        MultiResponse done = new MultiResponse();
        done.add(new OpResult.CheckResult());
        done.add(new OpResult.CreateResult("/b0000000001"));
        done.add(new OpResult.CreateResult("/t", stat));
        done.add(new OpResult.SetDataResult(stat));
        done.add(new OpResult.DeleteResult());
        put(map, "MultiReply", done);
        MultiResponse failed = new MultiResponse();
        failed.add(new OpResult.ErrorResult(0));
        failed.add(new OpResult.ErrorResult(-103));
        failed.add(new OpResult.ErrorResult(-2));
        put(map, "MultiReply failed", failed);

        // Null, which Java distinguishes from empty, is the length -1.
        put(map, "null Create", new CreateRequest("/a", null, null, 0));
        put(map, "null DataReply", new GetDataResponse(null, stat));
        put(map, "null NamesReply", new GetChildrenResponse(null));
        put(map, "null AuthPacket", new AuthPacket(0, null, null));
        return map;
    }

    static void put(Map<String, String> map, String name, Record record) throws Exception {
        ByteArrayOutputStream bytes = new ByteArrayOutputStream();
        record.serialize(BinaryOutputArchive.getArchive(bytes), "record");
        StringBuilder hex = new StringBuilder();
        for (byte b : bytes.toByteArray()) {
            hex.append(String.format("%02x", b));
        }
        map.put(name, quote(hex.toString()));
    }

    static String object(Map<String, String> map) {
        List<String> items = new ArrayList<>();
        map.forEach((key, value) -> items.add(quote(key) + ":" + value));
        return "{\n" + String.join(",\n", items) + "\n}";
    }

    static String quote(String text) {
        StringBuilder quoted = new StringBuilder("\"");
        for (char c : text.toCharArray()) {
            if (c < ' ' || c > '~' || c == '"' || c == '\\') {
                quoted.append(String.format("\\u%04x", (int) c));
            } else {
                quoted.append(c);
            }
        }
        return quoted.append('"').toString();
    }
}
