import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.management.ManagementFactory;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicReference;
import java.util.concurrent.locks.LockSupport;
import java.util.stream.Collectors;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.api.BackgroundCallback;
import org.apache.curator.framework.recipes.leader.LeaderLatch;
import org.apache.curator.framework.recipes.leader.LeaderLatchListener;
import org.apache.curator.framework.recipes.leader.LeaderSelector;
import org.apache.curator.framework.recipes.leader.LeaderSelectorListenerAdapter;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.retry.RetryNTimes;
import org.apache.zookeeper.KeeperException;
import org.apache.zookeeper.WatchedEvent;
import org.apache.zookeeper.Watcher;

/**
 * Curator, as its documentation shows it: what interface.py says, and the lines that host.py says.
 *
 * <p>Its retries follow each other after 5 ms, so that its back-off, of which its users choose the
 * length, is not what is measured.
 */
public final class Curator {
    private static final int RETRIES = 20_000;
    private static final int RETRY_MS = 5;

    private final List<CuratorFramework> clients = new ArrayList<>();
    private final List<Watcher> watches = new ArrayList<>();
    private final com.sun.management.OperatingSystemMXBean system =
            (com.sun.management.OperatingSystemMXBean)
                    ManagementFactory.getOperatingSystemMXBean();
    private final AtomicReference<Throwable> failed = new AtomicReference<>();
    private Release holder;
    private CountDownLatch served;

    private interface Work {
        void run() throws Exception;
    }

    private interface Release {
        void release() throws Exception;
    }

    public static void main(String[] arguments) throws Exception {
        PrintStream out = new PrintStream(System.out, false, StandardCharsets.UTF_8);
        Curator curator = new Curator();
        BufferedReader in =
                new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String[] words = line.split("\t");
            Map<String, String> named = new HashMap<>();
            for (String word : Arrays.copyOfRange(words, 1, words.length)) {
                int sign = word.indexOf('=');
                named.put(word.substring(0, sign), word.substring(sign + 1));
            }
            String answer;
            try {
                answer = "ok\t{" + curator.obey(words[0], new Arguments(named)) + "}";
            } catch (Throwable error) {
                answer = "error\t" + String.valueOf(error).replaceAll("\\s+", " ");
            }
            out.print(answer + "\n");
            out.flush();
        }
        // Whoever has started this process is gone; so may its threads.
        Runtime.getRuntime().halt(0);
    }

    private record Arguments(Map<String, String> named) {
        String text(String name) {
            return named.get(name);
        }

        int number(String name) {
            return (int) Math.round(Double.parseDouble(named.get(name)));
        }

        double real(String name) {
            return Double.parseDouble(named.get(name));
        }

        int milliseconds(String name) {
            return (int) Math.round(real(name) * 1000);
        }
    }

    private String obey(String verb, Arguments with) throws Exception {
        switch (verb) {
            case "start":
                return "\"base\": " + resident() + ", \"pid\": " + ProcessHandle.current().pid();
            case "version":
                return "\"version\": \"" + version() + "\"";
            case "memory":
                System.gc();
                Runtime heap = Runtime.getRuntime();
                long used = heap.totalMemory() - heap.freeMemory();
                return "\"resident\": " + resident() + ", \"heap\": " + used;
            case "cpu":
                return "\"cpu\": " + system.getProcessCpuTime() / 1e9 + ", \"at\": " + now();
            case "open":
                failed.set(null);
                String[] servers = with.text("hosts").split(",");
                for (int i = 0; i < with.number("sessions"); i++) {
                    clients.add(
                            client(servers[i % servers.length], with.milliseconds("timeout")));
                }
                return "";
            case "close":
                for (CuratorFramework client : clients) {
                    client.close();
                }
                clients.clear();
                watches.clear();
                holder = null;
                return "";
            case "gets":
                return gets(with.text("path"), with.number("count"));
            case "pipeline":
                return pipeline(
                        with.text("op"),
                        with.text("path"),
                        with.number("count"),
                        new byte[with.number("size")]);
            case "cycles":
                return cycles(with.text("path"), with.number("count"));
            case "together":
                return together(with.text("path"), with.number("locks"), with.number("each"));
            case "watch":
                return watch(with.text("path"), with.number("count"));
            case "recover":
                return recover();
            case "turns":
                return turns(
                        with.text("kind"),
                        with.text("path"),
                        with.number("each"),
                        Math.round(with.real("hold") * 1e9),
                        Path.of(with.text("gate")));
            case "queue":
                return queue(
                        with.text("kind"),
                        with.text("path"),
                        with.number("contenders"),
                        with.number("hold") != 0);
            case "drain":
                return drain();
            case "connects":
                return connects(
                        with.text("hosts"), with.number("count"), with.milliseconds("timeout"));
            default:
                throw new IllegalArgumentException("there is no verb " + verb);
        }
    }

    // --- times -------------------------------------------------------------------------------

    /** The machine's monotonic clock, on Linux. */
    private static long now() {
        return System.nanoTime();
    }

    private String timed(Work work) throws Exception {
        long cpu = system.getProcessCpuTime();
        long start = now();
        work.run();
        double seconds = (now() - start) / 1e9;
        return "\"seconds\": " + seconds + ", \"cpu\": " + (system.getProcessCpuTime() - cpu) / 1e9;
    }

    private static long resident() throws IOException {
        for (String line : Files.readAllLines(Path.of("/proc/self/status"))) {
            if (line.startsWith("RssAnon:")) {
                return Long.parseLong(line.split("\\s+")[1]) * 1024;
            }
        }
        throw new IOException("the kernel does not tell");
    }

    private static String version() throws Exception {
        Properties told = new Properties();
        try (InputStream file =
                CuratorFramework.class.getResourceAsStream(
                        "/META-INF/maven/org.apache.curator/curator-framework/pom.properties")) {
            if (file != null) {
                told.load(file);
            }
        }
        return told.getProperty("version", "of an unknown version");
    }

    // --- the client --------------------------------------------------------------------------

    private static CuratorFramework client(String hosts, int timeout) throws Exception {
        CuratorFramework client =
                CuratorFrameworkFactory.builder()
                        .connectString(hosts)
                        .sessionTimeoutMs(timeout)
                        .connectionTimeoutMs(timeout)
                        .retryPolicy(new RetryNTimes(RETRIES, RETRY_MS))
                        .ensembleTracker(false)
                        .build();
        client.start();
        client.blockUntilConnected();
        return client;
    }

    private CuratorFramework first() {
        return clients.get(0);
    }

    private String gets(String path, int count) throws Exception {
        CuratorFramework client = first();
        return timed(
                () -> {
                    for (int i = 0; i < count; i++) {
                        client.getData().forPath(path);
                    }
                });
    }

    private String pipeline(String op, String path, int count, byte[] data) throws Exception {
        CuratorFramework client = first();
        CountDownLatch answered = new CountDownLatch(count);
        BackgroundCallback callback =
                (from, event) -> {
                    if (event.getResultCode() != 0) {
                        fail(KeeperException.create(
                                KeeperException.Code.get(event.getResultCode()), event.getPath()));
                    }
                    answered.countDown();
                };
        String answer =
                timed(
                        () -> {
                            for (int i = 0; i < count; i++) {
                                String each = path + "/n-" + i;
                                switch (op) {
                                    case "create":
                                        client.create().inBackground(callback).forPath(each, data);
                                        break;
                                    case "set":
                                        client.setData().inBackground(callback).forPath(each, data);
                                        break;
                                    case "get":
                                        client.getData().inBackground(callback).forPath(each);
                                        break;
                                    default:
                                        client.delete().inBackground(callback).forPath(each);
                                }
                            }
                            answered.await();
                        });
        check();
        return answer;
    }

    private String watch(String path, int count) throws Exception {
        for (int i = 0; i < count; i++) {
            Watcher watcher =
                    new Watcher() {
                        @Override
                        public void process(WatchedEvent event) {}
                    };
            watches.add(watcher);
            first().checkExists().usingWatcher(watcher).forPath(path + "/absent-" + i);
        }
        return "";
    }

    private String recover() throws Exception {
        // Its own retries are the attempts: they end with an answer.
        first().checkExists().forPath("/");
        return "\"usable\": " + now() + ", \"attempts\": 1";
    }

    private String connects(String hosts, int count, int timeout) throws Exception {
        List<Double> samples = new ArrayList<>();
        for (int i = 0; i < count; i++) {
            long start = now();
            CuratorFramework client = client(hosts, timeout);
            client.checkExists().forPath("/");
            samples.add((now() - start) / 1e9);
            client.close();
        }
        return "\"samples\": " + samples;
    }

    // --- locks and elections -----------------------------------------------------------------

    private String cycles(String path, int count) throws Exception {
        InterProcessMutex lock = new InterProcessMutex(first(), path);
        return timed(() -> cycle(lock, count));
    }

    private static void cycle(InterProcessMutex lock, int count) throws Exception {
        for (int i = 0; i < count; i++) {
            lock.acquire();
            lock.release();
        }
    }

    private String together(String path, int locks, int each) throws Exception {
        List<Work> all = new ArrayList<>();
        for (int i = 0; i < locks; i++) {
            InterProcessMutex lock = new InterProcessMutex(first(), path + "/" + i);
            all.add(() -> cycle(lock, each));
        }
        String answer = timed(() -> inThreads(all).await());
        check();
        return answer;
    }

    private String turns(String kind, String path, int each, long hold, Path gate)
            throws Exception {
        List<long[]> turns = Collections.synchronizedList(new ArrayList<>());
        long cpu = system.getProcessCpuTime();
        List<Work> all = new ArrayList<>();
        for (CuratorFramework client : clients) {
            switch (kind) {
                case "lock":
                    InterProcessMutex lock = new InterProcessMutex(client, path);
                    all.add(
                            () -> {
                                for (int i = 0; i < each; i++) {
                                    lock.acquire();
                                    turns.add(held(hold, gate));
                                    lock.release();
                                }
                            });
                    break;
                case "election":
                    all.add(() -> select(client, path, each, hold, gate, turns));
                    break;
                default:
                    all.add(
                            () -> {
                                for (int i = 0; i < each; i++) {
                                    try (LeaderLatch latch = new LeaderLatch(client, path)) {
                                        latch.start();
                                        latch.await();
                                        turns.add(held(hold, gate));
                                    }
                                }
                            });
            }
        }
        inThreads(all).await();
        check();
        String pairs =
                turns.stream()
                        .map(turn -> "[" + turn[0] + ", " + turn[1] + "]")
                        .collect(Collectors.joining(", "));
        double used = (system.getProcessCpuTime() - cpu) / 1e9;
        return "\"turns\": [" + pairs + "], \"cpu\": " + used;
    }

    private static long[] held(long hold, Path gate) {
        long had = now();
        while (now() - had < hold) {
            LockSupport.parkNanos(hold - (now() - had));
        }
        while (Files.exists(gate)) {
            LockSupport.parkNanos(1_000_000);
        }
        return new long[] {had, now()};
    }

    private static void select(
            CuratorFramework client,
            String path,
            int each,
            long hold,
            Path gate,
            List<long[]> turns)
            throws Exception {
        CountDownLatch left = new CountDownLatch(each);
        LeaderSelector selector =
                new LeaderSelector(
                        client,
                        path,
                        new LeaderSelectorListenerAdapter() {
                            @Override
                            public void takeLeadership(CuratorFramework led) {
                                if (left.getCount() > 0) {
                                    turns.add(held(hold, gate));
                                    left.countDown();
                                }
                            }
                        });
        selector.autoRequeue();
        selector.start();
        left.await();
        selector.close();
    }

    private String queue(String kind, String path, int contenders, boolean hold) throws Exception {
        served = new CountDownLatch(contenders);
        holder = null;
        boolean isLock = kind.equals("lock");
        if (hold && isLock) {
            // It belongs to a thread: the one that obeys.
            InterProcessMutex first = new InterProcessMutex(first(), path);
            first.acquire();
            holder = first::release;
        } else if (hold) {
            LeaderLatch first = new LeaderLatch(first(), path);
            first.start();
            first.await();
            holder = first::close;
        }
        List<InterProcessMutex> locks = new ArrayList<>();
        for (CuratorFramework client : clients) {
            locks.add(new InterProcessMutex(client, path));
        }
        ExecutorService closing = isLock ? null : Executors.newCachedThreadPool();
        long began = now();
        List<Work> all = new ArrayList<>();
        for (int i = 0; i < contenders; i++) {
            if (isLock) {
                // One object is for any number of threads.
                InterProcessMutex lock = locks.get(i % locks.size());
                all.add(
                        () -> {
                            lock.acquire();
                            lock.release();
                        });
            } else {
                LeaderLatch latch = new LeaderLatch(clients.get(i % clients.size()), path);
                CountDownLatch done = served;
                latch.addListener(
                        new LeaderLatchListener() {
                            @Override
                            public void isLeader() {
                                closing.submit(
                                        () -> {
                                            latch.close();
                                            done.countDown();
                                            return null;
                                        });
                            }

                            @Override
                            public void notLeader() {}
                        });
                latch.start();
            }
        }
        if (isLock) {
            served = inThreads(all);
        }
        return "\"began\": " + began;
    }

    private String drain() throws Exception {
        String answer =
                timed(
                        () -> {
                            if (holder != null) {
                                holder.release();
                            }
                            served.await();
                        });
        check();
        return answer;
    }

    // --- threads -----------------------------------------------------------------------------

    private CountDownLatch inThreads(List<Work> all) {
        CountDownLatch done = new CountDownLatch(all.size());
        AtomicInteger number = new AtomicInteger();
        for (Work work : all) {
            Thread thread =
                    new Thread(
                            () -> {
                                try {
                                    work.run();
                                } catch (Throwable error) {
                                    fail(error);
                                } finally {
                                    done.countDown();
                                }
                            },
                            "contender-" + number.incrementAndGet());
            thread.setDaemon(true);
            thread.start();
        }
        return done;
    }

    private void fail(Throwable error) {
        failed.compareAndSet(null, error);
    }

    private void check() {
        Throwable error = failed.get();
        if (error != null) {
            throw new IllegalStateException(error);
        }
    }
}
