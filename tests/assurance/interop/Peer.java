import java.io.BufferedReader;
import java.io.Closeable;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collection;
import java.util.Deque;
import java.util.HashMap;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.Semaphore;
import java.util.concurrent.TimeUnit;
import java.util.stream.Collectors;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.atomic.AtomicValue;
import org.apache.curator.framework.recipes.atomic.CachedAtomicLong;
import org.apache.curator.framework.recipes.atomic.DistributedAtomicInteger;
import org.apache.curator.framework.recipes.atomic.DistributedAtomicLong;
import org.apache.curator.framework.recipes.atomic.PromotedToLock;
import org.apache.curator.framework.recipes.barriers.DistributedBarrier;
import org.apache.curator.framework.recipes.barriers.DistributedDoubleBarrier;
import org.apache.curator.framework.recipes.cache.CuratorCache;
import org.apache.curator.framework.recipes.leader.LeaderLatch;
import org.apache.curator.framework.recipes.leader.LeaderSelector;
import org.apache.curator.framework.recipes.leader.LeaderSelectorListenerAdapter;
import org.apache.curator.framework.recipes.leader.Participant;
import org.apache.curator.framework.recipes.locks.InterProcessMultiLock;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.framework.recipes.locks.InterProcessReadWriteLock;
import org.apache.curator.framework.recipes.locks.InterProcessSemaphoreMutex;
import org.apache.curator.framework.recipes.locks.InterProcessSemaphoreV2;
import org.apache.curator.framework.recipes.locks.Lease;
import org.apache.curator.framework.recipes.locks.Revoker;
import org.apache.curator.framework.recipes.nodes.GroupMember;
import org.apache.curator.framework.recipes.nodes.PersistentNode;
import org.apache.curator.framework.recipes.queue.DistributedDelayQueue;
import org.apache.curator.framework.recipes.queue.DistributedIdQueue;
import org.apache.curator.framework.recipes.queue.DistributedPriorityQueue;
import org.apache.curator.framework.recipes.queue.DistributedQueue;
import org.apache.curator.framework.recipes.queue.MultiItem;
import org.apache.curator.framework.recipes.queue.QueueBase;
import org.apache.curator.framework.recipes.queue.QueueBuilder;
import org.apache.curator.framework.recipes.queue.QueueConsumer;
import org.apache.curator.framework.recipes.queue.QueueSerializer;
import org.apache.curator.framework.recipes.queue.SimpleDistributedQueue;
import org.apache.curator.framework.recipes.shared.SharedCount;
import org.apache.curator.framework.recipes.shared.SharedValue;
import org.apache.curator.framework.recipes.shared.VersionedValue;
import org.apache.curator.framework.state.ConnectionState;
import org.apache.curator.retry.RetryOneTime;
import org.apache.curator.x.discovery.ServiceDiscovery;
import org.apache.curator.x.discovery.ServiceDiscoveryBuilder;
import org.apache.curator.x.discovery.ServiceInstance;
import org.apache.curator.x.discovery.ServiceProvider;
import org.apache.curator.x.discovery.UriSpec;
import org.apache.curator.x.discovery.strategies.RoundRobinStrategy;
import org.apache.zookeeper.CreateMode;
import org.apache.zookeeper.KeeperException;
import org.apache.zookeeper.ZooKeeper;
import org.apache.zookeeper.recipes.lock.LockListener;
import org.apache.zookeeper.recipes.lock.WriteLock;

/**
 * Curator's recipes, told by lines on the standard input what to do.
 *
 * <p>A line is `number actor command argument...`, separated by tabs; the answer to it is `number ok
 * value` or `number error what`. An actor is a thread with a client of its own, made by `open`: it
 * does one thing after the other, as Curator's locks belong to threads. Bytes are hexadecimal, times
 * are milliseconds; a recipe's object is made when it is first named, by its kind and path.
 */
public final class Peer {
    private static final PrintStream OUT = System.out;

    private interface Command {
        Object run(String[] words) throws Exception;
    }

    private interface Make<T> {
        T make() throws Exception;
    }

    public static void main(String[] arguments) throws Exception {
        Map<String, Peer> actors = new HashMap<>();
        InputStreamReader bytes = new InputStreamReader(System.in, StandardCharsets.UTF_8);
        BufferedReader in = new BufferedReader(bytes);
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String[] words = line.split("\t", -1);
            Peer actor = actors.computeIfAbsent(words[1], name -> new Peer());
            String[] rest = Arrays.copyOfRange(words, 3, words.length);
            actor.thread.submit(() -> actor.obey(words[0], words[2], rest));
        }
        // Whoever has started this process is gone.
        System.exit(0);
    }

    private final ExecutorService thread = Executors.newSingleThreadExecutor();
    private final Map<String, Command> commands = new HashMap<>();
    private final Map<String, Object> things = new HashMap<>();
    private final Deque<Closeable> toClose = new ArrayDeque<>();
    private CuratorFramework client;

    private Peer() {
        plain();
        locks();
        writeLocks();
        elections();
        semaphores();
        barriers();
        queues();
        counts();
        values();
        caches();
        atomics();
        groups();
        persistentNodes();
        discovery();
    }

    private void obey(String number, String command, String[] words) {
        String answer;
        try {
            Object value = commands.get(command).run(words);
            answer = number + "\tok\t" + (value == null ? "" : value);
        } catch (Throwable failed) {
            answer = number + "\terror\t" + String.valueOf(failed).replaceAll("\\s", " ");
        }
        synchronized (OUT) {
            OUT.print(answer + "\n");
            OUT.flush();
        }
    }

    // --- the client --------------------------------------------------------------------------

    private void plain() {
        commands.put("open", w -> open(w[0], Integer.parseInt(w[1])));
        commands.put("close", w -> close());
        commands.put("get", w -> hex(client.getData().forPath(w[0])));
    }

    private Object open(String hosts, int sessionTimeout) throws Exception {
        client =
                CuratorFrameworkFactory.builder()
                        .connectString(hosts)
                        .sessionTimeoutMs(sessionTimeout)
                        .connectionTimeoutMs(sessionTimeout)
                        .retryPolicy(new RetryOneTime(200))
                        .ensembleTracker(false)
                        .defaultData("curator".getBytes(StandardCharsets.UTF_8))
                        .build();
        client.start();
        if (!client.blockUntilConnected(20, TimeUnit.SECONDS)) {
            throw new IllegalStateException("no connection");
        }
        return client.getZookeeperClient().getZooKeeper().getSessionId();
    }

    private Object close() throws Exception {
        while (!toClose.isEmpty()) {
            toClose.pop().close();
        }
        things.clear();
        client.close();
        thread.shutdown();
        return null;
    }

    // --- locks -------------------------------------------------------------------------------

    private InterProcessMutex mutex(String path) throws Exception {
        return thing("mutex " + path, () -> new InterProcessMutex(client, path));
    }

    private InterProcessMutex side(String which, String path) throws Exception {
        InterProcessReadWriteLock lock =
                thing("rw " + path, () -> new InterProcessReadWriteLock(client, path));
        return which.equals("write") ? lock.writeLock() : lock.readLock();
    }

    private InterProcessMultiLock multi(String paths) throws Exception {
        return thing(
                "multi " + paths,
                () -> new InterProcessMultiLock(client, List.of(paths.split(","))));
    }

    private Semaphore revoked(String path) throws Exception {
        return thing("revoked " + path, () -> new Semaphore(0));
    }

    private void locks() {
        commands.put(
                "mutex.acquire", w -> mutex(w[0]).acquire(number(w[1]), TimeUnit.MILLISECONDS));
        commands.put("mutex.release", w -> done(() -> mutex(w[0]).release()));
        commands.put("mutex.seen", w -> dataOf(mutex(w[0]).getParticipantNodes()));
        commands.put(
                "mutex.revocable",
                w -> {
                    Semaphore revoked = revoked(w[0]);
                    mutex(w[0]).makeRevocable(asked -> revoked.release());
                    return null;
                });
        commands.put(
                "mutex.revoked",
                w -> revoked(w[0]).tryAcquire(number(w[1]), TimeUnit.MILLISECONDS));
        // What is named is the znode of whoever shall let go.
        commands.put("mutex.revoke", w -> done(() -> Revoker.attemptRevoke(client, w[0])));
        for (String which : List.of("read", "write")) {
            commands.put(
                    which + ".acquire",
                    w -> side(which, w[0]).acquire(number(w[1]), TimeUnit.MILLISECONDS));
            commands.put(which + ".release", w -> done(() -> side(which, w[0]).release()));
            commands.put(which + ".seen", w -> dataOf(side(which, w[0]).getParticipantNodes()));
        }
        commands.put(
                "multi.acquire", w -> multi(w[0]).acquire(number(w[1]), TimeUnit.MILLISECONDS));
        commands.put("multi.release", w -> done(() -> multi(w[0]).release()));
    }

    // --- the lock that comes with ZooKeeper ------------------------------------------------------

    private WriteLock writeLock(String path) throws Exception {
        Semaphore turns = turns(path);
        LockListener listener =
                new LockListener() {
                    @Override
                    public void lockAcquired() {
                        turns.release();
                    }

                    @Override
                    public void lockReleased() {}
                };
        return thing(
                "writelock " + path,
                () -> {
                    ZooKeeper zookeeper = client.getZookeeperClient().getZooKeeper();
                    return new WriteLock(zookeeper, path, null, listener);
                });
    }

    private void writeLocks() {
        commands.put(
                "writelock.acquire",
                w -> {
                    writeLock(w[0]).lock();
                    return turns(w[0]).tryAcquire(number(w[1]), TimeUnit.MILLISECONDS);
                });
        commands.put("writelock.release", w -> done(() -> writeLock(w[0]).unlock()));
    }

    // --- elections ---------------------------------------------------------------------------

    private void elections() {
        commands.put(
                "latch.acquire",
                w -> {
                    LeaderLatch latch = new LeaderLatch(client, w[0], "curator");
                    things.put("latch " + w[0], latch);
                    toClose.push(() -> closeLatch(latch));
                    latch.start();
                    return latch.await(number(w[1]), TimeUnit.MILLISECONDS);
                });
        commands.put("latch.release", w -> done(() -> closeLatch(known("latch " + w[0]))));
        commands.put(
                "latch.seen", w -> ids(new LeaderLatch(client, w[0]).getParticipants()));
        commands.put(
                "selector.acquire",
                w -> {
                    startSelector(w[0]);
                    return turns(w[0]).tryAcquire(number(w[1]), TimeUnit.MILLISECONDS);
                });
        commands.put(
                "selector.release",
                w -> {
                    LeaderSelector selector = known("selector " + w[0]);
                    selector.interruptLeadership();
                    return null;
                });
        commands.put("selector.seen", w -> ids(selector(w[0]).getParticipants()));
    }

    private static String ids(Collection<Participant> participants) {
        return participants.stream().map(Participant::getId).collect(Collectors.joining(","));
    }

    /** One permit for each time that it has come to hold. */
    private Semaphore turns(String path) throws Exception {
        return thing("turns " + path, () -> new Semaphore(0));
    }

    private LeaderSelector selector(String path) throws Exception {
        Semaphore turns = turns(path);
        LeaderSelectorListenerAdapter leader =
                new LeaderSelectorListenerAdapter() {
                    @Override
                    public void takeLeadership(CuratorFramework client) throws Exception {
                        turns.release();
                        new Semaphore(0).acquire();
                    }
                };
        LeaderSelector selector = new LeaderSelector(client, path, leader);
        selector.setId("curator");
        return selector;
    }

    private void startSelector(String path) throws Exception {
        LeaderSelector selector = selector(path);
        things.put("selector " + path, selector);
        toClose.push(selector);
        selector.start();
    }

    private static void closeLatch(LeaderLatch latch) throws IOException {
        if (latch.getState() == LeaderLatch.State.STARTED) {
            latch.close();
        }
    }

    // --- semaphores --------------------------------------------------------------------------

    private InterProcessSemaphoreMutex semaphoreMutex(String path) throws Exception {
        return thing("smutex " + path, () -> new InterProcessSemaphoreMutex(client, path));
    }

    private void semaphores() {
        commands.put(
                "smutex.acquire",
                w -> semaphoreMutex(w[0]).acquire(number(w[1]), TimeUnit.MILLISECONDS));
        commands.put("smutex.release", w -> done(() -> semaphoreMutex(w[0]).release()));
        commands.put("permit.acquire", w -> permits(new String[] {w[0], "1", "1", w[1]}));
        commands.put("permit.release", w -> giveBack(w[0], 1));
        commands.put(
                "permit.seen",
                w ->
                        dataOf(
                                new InterProcessSemaphoreV2(client, w[0], 1)
                                        .getParticipantNodes().stream()
                                                .map(name -> w[0] + "/leases/" + name)
                                                .collect(Collectors.toList())));
        commands.put("semaphore.acquire", w -> permits(w));
        commands.put("semaphore.release", w -> giveBack(w[0], Integer.parseInt(w[1])));
    }

    private Object giveBack(String path, int permits) throws Exception {
        Deque<Lease> leases = known("leases " + path);
        for (int left = permits; left > 0; left--) {
            leases.pop().close();
        }
        return null;
    }

    /** Path, limit or the path of a SharedCount that has it, permits, time. */
    private Object permits(String[] w) throws Exception {
        InterProcessSemaphoreV2 semaphore =
                w[1].startsWith("/")
                        ? new InterProcessSemaphoreV2(client, w[0], count(w[1], 0))
                        : new InterProcessSemaphoreV2(client, w[0], Integer.parseInt(w[1]));
        Collection<Lease> more =
                semaphore.acquire(Integer.parseInt(w[2]), number(w[3]), TimeUnit.MILLISECONDS);
        Deque<Lease> leases = thing("leases " + w[0], () -> new ArrayDeque<Lease>());
        return more != null && leases.addAll(more);
    }

    // --- barriers ----------------------------------------------------------------------------

    private DistributedBarrier barrier(String path) throws Exception {
        return thing("barrier " + path, () -> new DistributedBarrier(client, path));
    }

    private void barriers() {
        commands.put("barrier.set", w -> done(() -> barrier(w[0]).setBarrier()));
        commands.put("barrier.remove", w -> done(() -> barrier(w[0]).removeBarrier()));
        commands.put(
                "barrier.wait",
                w -> barrier(w[0]).waitOnBarrier(number(w[1]), TimeUnit.MILLISECONDS));
        commands.put(
                "dbarrier.enter",
                w -> {
                    int members = Integer.parseInt(w[1]);
                    DistributedDoubleBarrier barrier =
                            thing(
                                    "dbarrier " + w[0],
                                    () -> new DistributedDoubleBarrier(client, w[0], members));
                    return barrier.enter(number(w[2]), TimeUnit.MILLISECONDS);
                });
        commands.put(
                "dbarrier.leave",
                w -> {
                    DistributedDoubleBarrier barrier = known("dbarrier " + w[0]);
                    return barrier.leave(number(w[1]), TimeUnit.MILLISECONDS);
                });
    }

    // --- queues ------------------------------------------------------------------------------

    /** What a queue's consumer was given; so many of them it throws back first. */
    private static final class Consumer implements QueueConsumer<byte[]> {
        final BlockingQueue<byte[]> items = new LinkedBlockingQueue<>();
        final Semaphore refusals = new Semaphore(0);

        @Override
        public void consumeMessage(byte[] item) {
            if (refusals.tryAcquire()) {
                throw new IllegalStateException("refused");
            }
            items.add(item);
        }

        @Override
        public void stateChanged(CuratorFramework client, ConnectionState state) {}
    }

    private static final class Bytes implements QueueSerializer<byte[]> {
        @Override
        public byte[] serialize(byte[] item) {
            return item;
        }

        @Override
        public byte[] deserialize(byte[] bytes) {
            return bytes;
        }
    }

    private Consumer consumer(String path) throws Exception {
        return thing("consumer " + path, Consumer::new);
    }

    private void queues() {
        commands.put("queue.open", w -> openQueue(w[0], w[1], w[2].equals("consume"), w[3]));
        commands.put("queue.put", w -> put(known("queue " + w[0]), bytes(w[1]), w[2]));
        commands.put(
                "queue.put-several",
                w -> {
                    DistributedQueue<byte[]> queue = known("queue " + w[0]);
                    Deque<String> items = new ArrayDeque<>(List.of(w[1].split(",")));
                    MultiItem<byte[]> several = () -> items.isEmpty() ? null : bytes(items.pop());
                    queue.putMulti(several);
                    return queue.flushPuts(10, TimeUnit.SECONDS);
                });
        commands.put(
                "queue.refuse",
                w -> done(() -> consumer(w[0]).refusals.release(Integer.parseInt(w[1]))));
        commands.put(
                "queue.offer-simple",
                w -> new SimpleDistributedQueue(client, w[0]).offer(bytes(w[1])));
        commands.put(
                "queue.take",
                w -> {
                    long wait = number(w[1]);
                    byte[] item = consumer(w[0]).items.poll(wait, TimeUnit.MILLISECONDS);
                    return item == null ? "nothing" : hex(item);
                });
    }

    private Object openQueue(String path, String kind, boolean consumes, String lockPath)
            throws Exception {
        Consumer consumer = consumer(path);
        QueueBuilder<byte[]> builder =
                QueueBuilder.builder(client, consumes ? consumer : null, new Bytes(), path);
        if (!lockPath.isEmpty()) {
            builder.lockPath(lockPath);
        }
        QueueBase<byte[]> made;
        switch (kind) {
            case "fifo":
                made = builder.buildQueue();
                break;
            case "priority":
                made = builder.buildPriorityQueue(0);
                break;
            case "delay":
                made = builder.buildDelayQueue();
                break;
            default:
                made = builder.buildIdQueue();
        }
        made.start();
        toClose.push(made);
        things.put("queue " + path, made);
        return null;
    }

    /** What goes with an item is its priority, the time when it is due, or its id. */
    private static Object put(QueueBase<byte[]> queue, byte[] item, String with) throws Exception {
        if (queue instanceof DistributedPriorityQueue) {
            ((DistributedPriorityQueue<byte[]>) queue).put(item, Integer.parseInt(with));
        } else if (queue instanceof DistributedDelayQueue) {
            ((DistributedDelayQueue<byte[]>) queue).put(item, number(with));
        } else if (queue instanceof DistributedIdQueue) {
            ((DistributedIdQueue<byte[]>) queue).put(item, with);
        } else {
            ((DistributedQueue<byte[]>) queue).put(item);
        }
        return queue.flushPuts(10, TimeUnit.SECONDS);
    }

    // --- numbers and values --------------------------------------------------------------------

    private SharedCount count(String path, int seed) throws Exception {
        return thing(
                "count " + path,
                () -> {
                    SharedCount count = new SharedCount(client, path, seed);
                    count.start();
                    toClose.push(count);
                    return count;
                });
    }

    private SharedValue shared(String path, String seed) throws Exception {
        return thing(
                "shared " + path,
                () -> {
                    SharedValue value = new SharedValue(client, path, bytes(seed));
                    value.start();
                    toClose.push(value);
                    return value;
                });
    }

    private void counts() {
        commands.put("count.start", w -> count(w[0], Integer.parseInt(w[1])).getCount());
        commands.put("count.get", w -> count(w[0], 0).getCount());
        commands.put(
                "count.set", w -> done(() -> count(w[0], 0).setCount(Integer.parseInt(w[1]))));
        commands.put(
                "count.try-increment",
                w -> {
                    SharedCount count = count(w[0], 0);
                    VersionedValue<Integer> now = count.getVersionedValue();
                    return count.trySetCount(now, now.getValue() + 1);
                });
        commands.put(
                "count.await",
                w -> awaited(() -> "" + count(w[0], 0).getCount(), w[1], number(w[2])));
    }

    private void values() {
        commands.put("shared.start", w -> hex(shared(w[0], w[1]).getValue()));
        commands.put("shared.get", w -> hex(shared(w[0], "").getValue()));
        commands.put("shared.set", w -> done(() -> shared(w[0], "").setValue(bytes(w[1]))));
        commands.put(
                "shared.try-set",
                w -> {
                    SharedValue value = shared(w[0], "");
                    return value.trySetValue(value.getVersionedValue(), bytes(w[1]));
                });
        commands.put(
                "shared.await",
                w -> awaited(() -> hex(shared(w[0], "").getValue()), w[1], number(w[2])));
    }

    private CuratorCache cache(String top) throws Exception {
        return thing(
                "cache " + top,
                () -> {
                    CuratorCache cache = CuratorCache.build(client, top);
                    cache.start();
                    toClose.push(cache);
                    return cache;
                });
    }

    private void caches() {
        // Top, path, data.
        commands.put(
                "cache.await",
                w ->
                        awaited(
                                () ->
                                        cache(w[0])
                                                .get(w[1])
                                                .map(found -> hex(found.getData()))
                                                .orElse("nothing"),
                                w[2],
                                number(w[3])));
        commands.put(
                "create",
                w -> client.create().creatingParentsIfNeeded().forPath(w[0], bytes(w[1])));
    }

    private DistributedAtomicLong atomic(String path) throws Exception {
        return thing(
                "atomic " + path,
                () -> new DistributedAtomicLong(client, path, new RetryOneTime(10)));
    }

    private void atomics() {
        commands.put("atomic.add", w -> after(atomic(w[0]).add(number(w[1]))));
        commands.put("atomic.get", w -> after(atomic(w[0]).get()));
        commands.put("atomic.set", w -> done(() -> atomic(w[0]).forceSet(number(w[1]))));
        commands.put("atomic.initialize", w -> atomic(w[0]).initialize(number(w[1])));
        commands.put(
                "atomic.add-promoted",
                w -> {
                    PromotedToLock lock =
                            PromotedToLock.builder()
                                    .lockPath(w[2])
                                    .timeout(10, TimeUnit.SECONDS)
                                    .build();
                    RetryOneTime policy = new RetryOneTime(1);
                    return after(
                            new DistributedAtomicLong(client, w[0], policy, lock)
                                    .add(number(w[1])));
                });
        commands.put(
                "atomic.add-int",
                w ->
                        after(
                                new DistributedAtomicInteger(client, w[0], new RetryOneTime(10))
                                        .add(Integer.parseInt(w[1]))));
        commands.put(
                "atomic.next",
                w -> {
                    CachedAtomicLong cached =
                            thing(
                                    "cached " + w[0],
                                    () ->
                                            new CachedAtomicLong(
                                                    atomic(w[0]), Integer.parseInt(w[1])));
                    return after(cached.next());
                });
    }

    private static Object after(AtomicValue<?> value) {
        if (!value.succeeded()) {
            throw new IllegalStateException("did not succeed");
        }
        return value.postValue();
    }

    // --- membership ----------------------------------------------------------------------------

    private GroupMember member(String path) {
        return known("group " + path);
    }

    private void groups() {
        commands.put(
                "group.join",
                w -> {
                    GroupMember made = new GroupMember(client, w[0], w[1], bytes(w[2]));
                    made.start();
                    toClose.push(made::close);
                    things.put("group " + w[0], made);
                    return null;
                });
        commands.put("group.set", w -> done(() -> member(w[0]).setThisData(bytes(w[1]))));
        commands.put("group.leave", w -> done(() -> member(w[0]).close()));
        commands.put(
                "group.await", w -> awaited(() -> members(member(w[0])), w[1], number(w[2])));
    }

    private static String members(GroupMember member) {
        Map<String, String> members = new TreeMap<>();
        member.getCurrentMembers().forEach((id, data) -> members.put(id, id + "=" + hex(data)));
        return listed(members.values());
    }

    private PersistentNode node(String path) {
        return known("pnode " + path);
    }

    private void persistentNodes() {
        commands.put(
                "pnode.start",
                w -> {
                    CreateMode mode = CreateMode.valueOf(w[1]);
                    PersistentNode made =
                            new PersistentNode(client, mode, false, w[0], bytes(w[2]));
                    made.start();
                    toClose.push(made);
                    things.put("pnode " + w[0], made);
                    return made.waitForInitialCreate(10, TimeUnit.SECONDS);
                });
        commands.put("pnode.set", w -> done(() -> node(w[0]).setData(bytes(w[1]))));
        commands.put("pnode.close", w -> done(() -> node(w[0]).close()));
    }

    // --- discovery -------------------------------------------------------------------------------

    private ServiceDiscovery<String> registry(String base) throws Exception {
        return thing(
                "discovery " + base,
                () -> {
                    // Payloads are texts.
                    ServiceDiscovery<String> made =
                            ServiceDiscoveryBuilder.builder(String.class)
                                    .client(client)
                                    .basePath(base)
                                    .build();
                    made.start();
                    toClose.push(made);
                    return made;
                });
    }

    private void discovery() {
        commands.put(
                "discovery.register",
                w -> {
                    ServiceInstance<String> instance =
                            ServiceInstance.<String>builder()
                                    .name(w[1])
                                    .id(w[2])
                                    .address(w[3])
                                    .port(Integer.parseInt(w[4]))
                                    .payload(w[5])
                                    .uriSpec(new UriSpec("{scheme}://{address}:{port}"))
                                    .build();
                    things.put("instance " + w[2], instance);
                    registry(w[0]).registerService(instance);
                    return null;
                });
        commands.put(
                "discovery.unregister",
                w -> done(() -> registry(w[0]).unregisterService(known("instance " + w[1]))));
        commands.put(
                "discovery.names", w -> listed(new TreeSet<>(registry(w[0]).queryForNames())));
        commands.put(
                "discovery.list",
                w ->
                        registry(w[0]).queryForInstances(w[1]).stream()
                                .map(Peer::told)
                                .sorted()
                                .collect(Collectors.joining(",")));
        commands.put(
                "discovery.uri", w -> registry(w[0]).queryForInstance(w[1], w[2]).buildUriSpec());
        commands.put("discovery.pick", w -> pick(w[0], w[1], Integer.parseInt(w[2])));
    }

    private Object pick(String base, String name, int times) throws Exception {
        ServiceProvider<String> provider =
                thing(
                        "provider " + name,
                        () -> {
                            ServiceProvider<String> made =
                                    registry(base)
                                            .serviceProviderBuilder()
                                            .serviceName(name)
                                            .providerStrategy(new RoundRobinStrategy<>())
                                            .build();
                            made.start();
                            toClose.push(made);
                            return made;
                        });
        List<String> picked = new ArrayList<>();
        for (int left = times; left > 0; left--) {
            ServiceInstance<String> instance = provider.getInstance();
            picked.add(instance == null ? "nobody" : instance.getId());
        }
        return listed(picked);
    }

    private static String told(ServiceInstance<String> instance) {
        return String.join(
                ";",
                instance.getId(),
                instance.getAddress(),
                String.valueOf(instance.getPort()),
                String.valueOf(instance.getPayload()),
                instance.getServiceType().name(),
                String.valueOf(instance.isEnabled()));
    }

    // --- small things ----------------------------------------------------------------------------

    private interface Act {
        void act() throws Exception;
    }

    private static Object done(Act act) throws Exception {
        act.act();
        return null;
    }

    /** What it is as soon as that is what is wanted, or else in the end. */
    private static String awaited(Make<String> look, String wanted, long wait) throws Exception {
        long until = System.nanoTime() + wait * 1_000_000;
        String found = look.make();
        while (!found.equals(wanted) && System.nanoTime() < until) {
            Thread.sleep(5);
            found = look.make();
        }
        return found;
    }

    @SuppressWarnings("unchecked")
    private <T> T thing(String name, Make<T> make) throws Exception {
        if (!things.containsKey(name)) {
            things.put(name, make.make());
        }
        return (T) things.get(name);
    }

    @SuppressWarnings("unchecked")
    private <T> T known(String name) {
        return (T) things.get(name);
    }

    /** What is in some znodes: the identities of whoever has made them; those that go are left out. */
    private String dataOf(Collection<String> paths) throws Exception {
        List<String> data = new ArrayList<>();
        for (String path : paths) {
            try {
                data.add(new String(client.getData().forPath(path), StandardCharsets.UTF_8));
            } catch (KeeperException.NoNodeException gone) {
                continue;
            }
        }
        return String.join(",", data);
    }

    private static String listed(Collection<String> values) {
        return String.join(",", values);
    }

    private static long number(String word) {
        return Long.parseLong(word);
    }

    private static byte[] bytes(String hex) {
        return HexFormat.of().parseHex(hex);
    }

    private static String hex(byte[] bytes) {
        return HexFormat.of().formatHex(bytes);
    }
}
