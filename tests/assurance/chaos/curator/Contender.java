import java.io.FileWriter;
import java.io.IOException;
import java.io.PrintWriter;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Random;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.leader.LeaderLatch;
import org.apache.curator.framework.recipes.leader.LeaderLatchListener;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.framework.state.ConnectionState;
import org.apache.curator.retry.ExponentialBackoffRetry;

/**
 * One contender with Curator's recipes, used as Curator's documentation says.
 *
 * <p>It believes that it leads from `LeaderLatchListener.isLeader` to `notLeader` (or to the first
 * look at `hasLeadership` that says no); and that it holds a mutex from the return of `acquire` to
 * the connection state SUSPENDED or LOST. Takes the options of contender.py, and writes what it
 * writes. SIGTERM has it leave in good order.
 */
public final class Contender {
    private static final long GLANCE_MS = 5;

    private final Map<String, String> options;
    private final Random random;
    private final PrintWriter history;
    private final PrintWriter confirmations;
    private final Thread main = Thread.currentThread();
    private volatile boolean leaving;
    private boolean believes;
    private boolean waits;
    private long token;
    private int updates;
    private CuratorFramework client;

    private Contender(Map<String, String> options) throws Exception {
        this.options = options;
        this.random = new Random(Long.parseLong(options.get("seed")));
        // Every line is flushed: a process that is killed must have told all that it has seen.
        this.history = appender(options.get("history"));
        this.confirmations = appender(options.get("history").replaceAll("[.]jsonl$", ".added"));
    }

    private static PrintWriter appender(String file) throws IOException {
        return new PrintWriter(new FileWriter(file, StandardCharsets.UTF_8, true), true);
    }

    public static void main(String[] arguments) throws Exception {
        Map<String, String> options = new HashMap<>();
        for (int i = 0; i < arguments.length; i += 2) {
            options.put(arguments[i].substring(2), arguments[i + 1]);
        }
        Contender contender = new Contender(options);
        Thread hook = new Thread(contender::leave);
        Runtime.getRuntime().addShutdownHook(hook);
        contender.run();
        // Not System.exit: the hook, if it runs, waits for this thread.
        Runtime.getRuntime().halt(0);
    }

    private boolean isLatch() {
        return options.get("recipe").equals("curator");
    }

    private void leave() {
        leaving = true;
        main.interrupt();
        try {
            main.join();
        } catch (InterruptedException interrupted) {
            Thread.currentThread().interrupt();
        }
    }

    private void run() throws Exception {
        int sessionTimeoutMs = (int) (Double.parseDouble(options.get("session-timeout")) * 1000);
        client =
                CuratorFrameworkFactory.builder()
                        .connectString(options.get("hosts"))
                        .sessionTimeoutMs(sessionTimeoutMs)
                        // Curator warns of one that is longer than the session timeout.
                        .connectionTimeoutMs(sessionTimeoutMs)
                        .retryPolicy(new ExponentialBackoffRetry(100, 3))
                        // It would leave the proxies for the addresses that the ensemble knows of.
                        .ensembleTracker(false)
                        .defaultData(options.get("name").getBytes(StandardCharsets.UTF_8))
                        .build();
        client.getConnectionStateListenable().addListener((c, state) -> heard(state));
        client.start();
        while (!leaving) {
            try {
                if (isLatch()) {
                    leadOnce();
                } else {
                    lockOnce();
                }
            } catch (InterruptedException interrupted) {
                if (!leaving) {
                    throw interrupted;
                }
            } catch (Exception failed) {
                // No connection, or no session: an application tries again.
                failed.printStackTrace();
                pause(100);
            }
        }
        Thread.interrupted();
        client.close();
    }

    // --- LeaderLatch -------------------------------------------------------------------------

    private void leadOnce() throws Exception {
        joined();
        try (LeaderLatch latch = new LeaderLatch(client, options.get("line"), options.get("name"))) {
            latch.addListener(
                    new LeaderLatchListener() {
                        @Override
                        public void isLeader() {
                            entered();
                        }

                        @Override
                        public void notLeader() {
                            if (left("not leader")) {
                                joined();
                            }
                        }
                    });
            latch.start();
            // A latch that is not the leader any more may be again, until it is closed.
            do {
                while (!isBelieving()) {
                    pause(GLANCE_MS);
                }
                hold(latch);
            } while (!left(""));
        } finally {
            left("");
            withdrew();
        }
    }

    // --- InterProcessMutex -------------------------------------------------------------------

    private void lockOnce() throws Exception {
        InterProcessMutex mutex = new InterProcessMutex(client, options.get("line"));
        joined();
        try {
            mutex.acquire();
        } finally {
            if (!mutex.isAcquiredInThisProcess()) {
                withdrew();
            }
        }
        entered();
        if (!client.getZookeeperClient().isConnected()) {
            left("suspended");
        }
        try {
            hold(null);
        } finally {
            left("");
            mutex.release();
        }
    }

    private void heard(ConnectionState state) {
        // What Curator's documentation says of its locks: assume the worst at SUSPENDED already.
        boolean lost = state == ConnectionState.SUSPENDED || state == ConnectionState.LOST;
        if (lost && !isLatch()) {
            left(state.name().toLowerCase(Locale.ROOT));
        }
    }

    // --- holding -----------------------------------------------------------------------------

    private void hold(LeaderLatch latch) throws Exception {
        double least = Double.parseDouble(options.get("hold-least"));
        double most = Double.parseDouble(options.get("hold-most"));
        long until = System.nanoTime() + (long) ((least + (most - least) * random.nextDouble()) * 1e9);
        while (isBelieving() && System.nanoTime() < until) {
            if (latch != null && !latch.hasLeadership() && left("no leadership")) {
                joined();
                return;
            }
            if (options.containsKey("plain")) {
                update();
            }
            pause(GLANCE_MS);
        }
    }

    /** Reads the set, adds an element and writes it back, as one does who holds a lock. */
    private void update() throws Exception {
        Path file = Path.of(options.get("plain"));
        List<String> elements = new ArrayList<>();
        try {
            elements.addAll(Files.readAllLines(file));
        } catch (NoSuchFileException absent) {
            // Nobody has added anything yet.
        }
        pause(GLANCE_MS);
        if (!isBelieving()) {
            return;
        }
        String element = options.get("name") + ":" + ++updates;
        elements.add(element);
        Path draft = Path.of(file + "." + options.get("name"));
        Files.write(draft, elements);
        Files.move(draft, file, StandardCopyOption.ATOMIC_MOVE);
        added(element);
    }

    // --- the history ---------------------------------------------------------------------------
    // Called by Curator's threads and by ours: one at a time. System.nanoTime is CLOCK_MONOTONIC.

    private synchronized boolean isBelieving() {
        return believes;
    }

    private synchronized void joined() {
        waits = true;
        tell("Joined", "");
    }

    private synchronized void withdrew() {
        if (waits) {
            waits = false;
            tell("Withdrew", ",\"why\":\"" + (leaving ? "cancelled" : "error") + "\"");
        }
    }

    private synchronized void entered() {
        waits = false;
        believes = true;
        // Curator gives its users no token; the time stands in, as it rises.
        token = System.nanoTime();
        tell("Entered", ",\"token\":" + token);
    }

    /** Says that it does not believe any longer; false if it did not. */
    private synchronized boolean left(String lost) {
        if (!believes) {
            return false;
        }
        believes = false;
        if (!lost.isEmpty()) {
            tell("SteppedDown", ",\"token\":" + token + ",\"why\":\"" + lost + "\"");
        }
        tell("Left", ",\"token\":" + token + ",\"was_lost\":" + !lost.isEmpty());
        return true;
    }

    private void added(String element) {
        confirmations.println("file " + element);
    }

    private void tell(String event, String more) {
        history.printf(
                Locale.ROOT,
                "{\"event\":\"%s\",\"at\":%.9f,\"contender\":\"%s\",\"line\":\"%s\"%s}%n",
                event,
                System.nanoTime() / 1e9,
                options.get("name"),
                options.get("line"),
                more);
    }

    private static void pause(long milliseconds) throws InterruptedException {
        Thread.sleep(milliseconds);
    }
}
