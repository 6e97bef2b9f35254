// The Go client of Debian (github.com/samuel/go-zookeeper) with its Lock: what interface.py says,
// and the lines that host.py says. It has no recipe but the lock.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
	"unsafe"

	"github.com/samuel/go-zookeeper/zk"
)

type silent struct{}

func (silent) Printf(string, ...interface{}) {}

type answer map[string]interface{}

var (
	clients  []*zk.Conn
	everyone = zk.WorldACL(zk.PermAll)
	holder   *zk.Lock
	served   sync.WaitGroup
	failed   error
	failing  sync.Mutex
)

func main() {
	in := bufio.NewReader(os.Stdin)
	for {
		line, err := in.ReadString('\n')
		if err != nil {
			return
		}
		told, err := obey(strings.Split(strings.TrimRight(line, "\n"), "\t"))
		if err != nil {
			fmt.Printf("error\t%s\n", strings.Join(strings.Fields(err.Error()), " "))
			continue
		}
		text, _ := json.Marshal(told)
		fmt.Printf("ok\t%s\n", text)
	}
}

func obey(words []string) (answer, error) {
	with := map[string]string{}
	for _, word := range words[1:] {
		parts := strings.SplitN(word, "=", 2)
		with[parts[0]] = parts[1]
	}
	number := func(name string) int {
		value, _ := strconv.ParseFloat(with[name], 64)
		return int(math.Round(value))
	}
	seconds := func(name string) time.Duration {
		value, _ := strconv.ParseFloat(with[name], 64)
		return time.Duration(value * 1e9)
	}
	path := with["path"]
	failed = nil
	switch words[0] {
	case "start":
		return answer{"base": resident(), "pid": os.Getpid()}, nil
	case "memory":
		return answer{"resident": resident()}, nil
	case "cpu":
		return answer{"cpu": cpu(), "at": now()}, nil
	case "version":
		return answer{"version": "c4fab1a (2018)"}, nil
	case "open":
		servers := strings.Split(with["hosts"], ",")
		for i := 0; i < number("sessions"); i++ {
			client, err := connect(servers[i%len(servers):i%len(servers)+1], seconds("timeout"))
			if err != nil {
				return nil, err
			}
			clients = append(clients, client)
		}
		return answer{}, nil
	case "close":
		for _, client := range clients {
			client.Close()
		}
		clients, holder = nil, nil
		return answer{}, nil
	case "gets":
		return timed(func() error {
			for i := 0; i < number("count"); i++ {
				if _, _, err := clients[0].Get(path); err != nil {
					return err
				}
			}
			return nil
		})
	case "pipeline":
		return pipeline(with["op"], path, number("count"), make([]byte, number("size")))
	case "cycles":
		lock := zk.NewLock(clients[0], path, everyone)
		return timed(func() error { return cycle(lock, number("count")) })
	case "together":
		return timed(func() error {
			return inParallel(number("locks"), func(i int) error {
				lock := zk.NewLock(clients[0], fmt.Sprintf("%s/%d", path, i), everyone)
				return cycle(lock, number("each"))
			})
		})
	case "recover":
		return recovered(seconds("within"))
	case "turns":
		return turns(path, number("each"), seconds("hold"), with["gate"])
	case "queue":
		return queue(path, number("contenders"), number("hold") != 0)
	case "drain":
		return timed(func() error {
			if holder != nil {
				if err := holder.Unlock(); err != nil {
					return err
				}
			}
			served.Wait()
			return failed
		})
	case "connects":
		return connects(strings.Split(with["hosts"], ","), number("count"), seconds("timeout"))
	}
	return nil, fmt.Errorf("there is no verb %s", words[0])
}

// --- times and memory ----------------------------------------------------------------------------

// The machine's monotonic clock, as the other processes read it.
func now() int64 {
	var at syscall.Timespec
	syscall.Syscall(syscall.SYS_CLOCK_GETTIME, 1, uintptr(unsafe.Pointer(&at)), 0)
	return at.Nano()
}

func cpu() float64 {
	var used syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &used)
	return float64(used.Utime.Nano()+used.Stime.Nano()) / 1e9
}

func timed(work func() error) (answer, error) {
	before, start := cpu(), time.Now()
	err := work()
	took := time.Since(start).Seconds()
	return answer{"seconds": took, "cpu": cpu() - before}, err
}

func resident() int {
	status, _ := os.ReadFile("/proc/self/status")
	for _, line := range strings.Split(string(status), "\n") {
		if strings.HasPrefix(line, "RssAnon:") {
			kibibytes, _ := strconv.Atoi(strings.Fields(line)[1])
			return kibibytes * 1024
		}
	}
	return 0
}

// --- the client ----------------------------------------------------------------------------------

func connect(servers []string, timeout time.Duration) (*zk.Conn, error) {
	client, events, err := zk.Connect(servers, timeout, zk.WithLogger(silent{}))
	if err != nil {
		return nil, err
	}
	for event := range events {
		if event.State == zk.StateHasSession {
			break
		}
	}
	return client, nil
}

func connects(hosts []string, count int, timeout time.Duration) (answer, error) {
	samples := []float64{}
	for i := 0; i < count; i++ {
		start := time.Now()
		client, err := connect(hosts, timeout)
		if err != nil {
			return nil, err
		}
		if _, _, err := client.Exists("/"); err != nil {
			return nil, err
		}
		samples = append(samples, time.Since(start).Seconds())
		client.Close()
	}
	return answer{"samples": samples}, nil
}

func pipeline(op string, path string, count int, data []byte) (answer, error) {
	// Its calls wait for their answers; a goroutine each is how it has several outstanding.
	return timed(func() error {
		return inParallel(count, func(i int) error {
			var err error
			each := fmt.Sprintf("%s/n-%d", path, i)
			switch op {
			case "create":
				_, err = clients[0].Create(each, data, 0, everyone)
			case "set":
				_, err = clients[0].Set(each, data, -1)
			case "get":
				_, _, err = clients[0].Get(each)
			default:
				err = clients[0].Delete(each, -1)
			}
			return err
		})
	})
}

func recovered(within time.Duration) (answer, error) {
	deadline := time.Now().Add(within)
	for attempts := 1; time.Now().Before(deadline); attempts++ {
		if _, _, err := clients[0].Exists("/"); err == nil {
			return answer{"usable": now(), "attempts": attempts}, nil
		}
		time.Sleep(500 * time.Microsecond)
	}
	return nil, fmt.Errorf("not usable after %s", within)
}

// --- contenders ----------------------------------------------------------------------------------

func cycle(lock *zk.Lock, count int) error {
	for i := 0; i < count; i++ {
		if err := lock.Lock(); err != nil {
			return err
		}
		if err := lock.Unlock(); err != nil {
			return err
		}
	}
	return nil
}

func turns(path string, each int, hold time.Duration, gate string) (answer, error) {
	found, mine := [][2]int64{}, sync.Mutex{}
	told, err := timed(func() error {
		return inParallel(len(clients), func(i int) error {
			lock := zk.NewLock(clients[i], path, everyone)
			for turn := 0; turn < each; turn++ {
				if err := lock.Lock(); err != nil {
					return err
				}
				had := now()
				time.Sleep(hold)
				for {
					if _, err := os.Stat(gate); err != nil {
						break
					}
					time.Sleep(time.Millisecond)
				}
				mine.Lock()
				found = append(found, [2]int64{had, now()})
				mine.Unlock()
				if err := lock.Unlock(); err != nil {
					return err
				}
			}
			return nil
		})
	})
	if err != nil {
		return nil, err
	}
	return answer{"turns": found, "cpu": told["cpu"]}, nil
}

func queue(path string, contenders int, hold bool) (answer, error) {
	holder = nil
	if hold {
		first := zk.NewLock(clients[0], path, everyone)
		if err := first.Lock(); err != nil {
			return nil, err
		}
		holder = first
	}
	began := now()
	for i := 0; i < contenders; i++ {
		lock := zk.NewLock(clients[i%len(clients)], path, everyone)
		served.Add(1)
		go func() {
			defer served.Done()
			note(cycle(lock, 1))
		}()
	}
	return answer{"began": began}, nil
}

func inParallel(count int, work func(int) error) error {
	var all sync.WaitGroup
	for i := 0; i < count; i++ {
		all.Add(1)
		go func(i int) {
			defer all.Done()
			note(work(i))
		}(i)
	}
	all.Wait()
	return failed
}

func note(err error) {
	if err != nil {
		failing.Lock()
		failed = err
		failing.Unlock()
	}
}
