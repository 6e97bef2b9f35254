// Says everything that ZooKeeper's own client can say; `record.py` listens. Prints "cut" when its
// connection is to be cut: the next one shows how it sets its watches again.

import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.Semaphore;
import org.apache.zookeeper.AddWatchMode;
import org.apache.zookeeper.CreateMode;
import org.apache.zookeeper.KeeperException;
import org.apache.zookeeper.Op;
import org.apache.zookeeper.Watcher;
import org.apache.zookeeper.ZooDefs.Ids;
import org.apache.zookeeper.ZooDefs.Perms;
import org.apache.zookeeper.ZooKeeper;
import org.apache.zookeeper.admin.ZooKeeperAdmin;
import org.apache.zookeeper.data.ACL;
import org.apache.zookeeper.data.Id;
import org.apache.zookeeper.data.Stat;

public class Conversation {
    static final Semaphore connected = new Semaphore(0);
    static final Watcher quiet = event -> { };

    interface Step { void run() throws Exception; }

    static void fails(Step step) throws Exception {
        try {
            step.run();
        } catch (KeeperException expected) {
            return;
        }
        throw new AssertionError("that should have failed");
    }

    public static void main(String[] args) throws Exception {
        ZooKeeperAdmin zk = new ZooKeeperAdmin(args[0], 20_000, event -> {
            if (event.getState() == Watcher.Event.KeeperState.SyncConnected
                    && event.getType() == Watcher.Event.EventType.None) {
                connected.release();
            }
        });
        connected.acquire();
        if (args.length > 1) {  // only the login is of interest
            zk.exists("/", false);
            zk.close();
            return;
        }
        zk.addAuthInfo("digest", "ann:secret".getBytes());
        byte[] data = "data".getBytes();
        List<ACL> open = Ids.OPEN_ACL_UNSAFE;
        zk.create("/g", data, open, CreateMode.PERSISTENT);
        zk.create("/g/plain", data, open, CreateMode.PERSISTENT, new Stat());
        zk.create("/g/eph", data, open, CreateMode.EPHEMERAL, new Stat());
        zk.create("/g/seq-", data, open, CreateMode.EPHEMERAL_SEQUENTIAL, new Stat());
        zk.create("/g/container", data, open, CreateMode.CONTAINER, new Stat());
        zk.create("/g/ttl", data, open, CreateMode.PERSISTENT_WITH_TTL, new Stat(), 60_000);
        fails(() -> zk.create("/g", data, open, CreateMode.PERSISTENT));
        zk.exists("/g", false);
        fails(() -> zk.getData("/none", false, null));
        zk.getData("/g/plain", false, new Stat());
        zk.setData("/g/plain", "more".getBytes(), 0);
        fails(() -> zk.setData("/g/plain", data, 7));
        zk.getACL("/g/plain", new Stat());
        zk.setACL("/g/plain", Arrays.asList(
            new ACL(Perms.ALL, new Id("auth", "ann")), new ACL(Perms.READ, Ids.ANYONE_ID_UNSAFE)), 0);
        zk.getACL("/g/plain", new Stat());
        zk.getChildren("/g", false);
        zk.getChildren("/g", false, new Stat());
        zk.getAllChildrenNumber("/g");
        zk.getEphemerals("/g");
        zk.whoAmI();
        Semaphore synced = new Semaphore(0);
        zk.sync("/g", (rc, path, ctx) -> synced.release(), null);
        synced.acquire();
        zk.multi(Arrays.asList(
            Op.check("/g", 0),
            Op.create("/g/m", data, open, CreateMode.PERSISTENT),
            Op.setData("/g/m", data, 0),
            Op.delete("/g/m", -1)));
        fails(() -> zk.multi(Arrays.asList(
            Op.create("/g/m", data, open, CreateMode.PERSISTENT), Op.check("/g", 9),
            Op.delete("/g/m", -1))));
        zk.multi(Arrays.asList(Op.getData("/g/plain"), Op.getChildren("/g"), Op.getData("/none")));
        zk.getConfig(false, new Stat());
        fails(() -> zk.reconfigure("server.2=localhost:2888:3888;2181", null, null, -1, new Stat()));
        // Watches: one that fires, one of each kind that is taken back, the others to be set again.
        zk.getData("/g/plain", quiet, null);
        zk.setData("/g/plain", data, -1);
        zk.getChildren("/g", quiet);
        zk.create("/g/child", data, open, CreateMode.PERSISTENT);
        zk.delete("/g/child", -1);
        zk.exists("/none", quiet);
        zk.create("/none", data, open, CreateMode.PERSISTENT);
        zk.delete("/none", -1);
        zk.exists("/taken", quiet);
        zk.removeWatches("/taken", quiet, Watcher.WatcherType.Data, false);
        fails(() -> zk.removeAllWatches("/g/plain", Watcher.WatcherType.Any, false));
        zk.getData("/g/plain", quiet, null);
        zk.getChildren("/g", quiet);
        zk.exists("/none", quiet);
        cut();
        zk.addWatch("/g", quiet, AddWatchMode.PERSISTENT);
        zk.addWatch("/g", quiet, AddWatchMode.PERSISTENT_RECURSIVE);
        zk.addWatch("/g/plain", quiet, AddWatchMode.PERSISTENT);
        zk.create("/g/child", data, open, CreateMode.PERSISTENT);
        zk.delete("/g/child", -1);
        cut();
        zk.removeWatches("/g", quiet, Watcher.WatcherType.Any, false);
        for (String name : new ArrayList<>(zk.getChildren("/g", false))) {
            zk.delete("/g/" + name, -1);
        }
        zk.delete("/g", -1);
        zk.close();
    }

    static void cut() throws Exception {
        connected.drainPermits();
        System.out.println("cut");
        System.out.flush();
        connected.acquire();
    }
}
