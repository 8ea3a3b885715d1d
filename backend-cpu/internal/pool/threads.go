package pool

import (
	"os"
	"path"
	"runtime"
	"strconv"
	"strings"
)

// DefaultThreads is the number of workers this process can keep busy: CPUs in its affinity mask, or fewer if a cgroup
// quota says so (runtime.GOMAXPROCS rounds a quota up, and never below 2; a spinning worker without a CPU to run on
// holds up all others, so here it is rounded down).
func DefaultThreads() int {
	return limitThreads(runtime.NumCPU(), "/")
}

func limitThreads(cpus int, root string) int {
	if q := cgroupQuota(root); q > 0 && int(q) < cpus {
		cpus = int(q)
	}
	return max(cpus, 1)
}

// cgroupQuota is the smallest CPU quota, in CPUs, on this process's cgroup path (version 2 or 1), or 0 without one.
// Sources: Linux Documentation/admin-guide/cgroup-v2.rst (cpu.max), cgroup-v1 sched-bwc.rst.
func cgroupQuota(root string) float64 {
	data, err := os.ReadFile(path.Join(root, "proc/self/cgroup"))
	if err != nil {
		return 0
	}
	best := 0.0
	take := func(q float64) {
		if q > 0 && (best == 0 || q < best) {
			best = q
		}
	}
	for line := range strings.Lines(string(data)) {
		id, rest, _ := strings.Cut(strings.TrimSpace(line), ":")
		controllers, dir, ok := strings.Cut(rest, ":")
		if !ok {
			continue
		}
		v2 := id == "0" && controllers == ""
		if !v2 && !hasWord(controllers, "cpu") {
			continue
		}
		// A container sees its own cgroup as the mount's root, whatever the path says: so every level up to the root counts.
		for dir = path.Clean("/" + dir); ; dir = path.Dir(dir) {
			if v2 {
				take(quotaV2(path.Join(root, "sys/fs/cgroup", dir)))
			} else {
				take(quotaV1(path.Join(root, "sys/fs/cgroup", "cpu", dir)))
				take(quotaV1(path.Join(root, "sys/fs/cgroup", controllers, dir)))
			}
			if dir == "/" {
				break
			}
		}
	}
	return best
}

func hasWord(list, word string) bool {
	for w := range strings.SplitSeq(list, ",") {
		if w == word {
			return true
		}
	}
	return false
}

func quotaV2(dir string) float64 {
	data, err := os.ReadFile(path.Join(dir, "cpu.max"))
	if err != nil {
		return 0
	}
	quota, period, _ := strings.Cut(strings.TrimSpace(string(data)), " ")
	return ratio(quota, period)
}

func quotaV1(dir string) float64 {
	quota, err := os.ReadFile(path.Join(dir, "cpu.cfs_quota_us"))
	if err != nil {
		return 0
	}
	period, err := os.ReadFile(path.Join(dir, "cpu.cfs_period_us"))
	if err != nil {
		return 0
	}
	return ratio(strings.TrimSpace(string(quota)), strings.TrimSpace(string(period)))
}

// ratio is 0 for "max", for -1 and for anything malformed: no quota.
func ratio(quota, period string) float64 {
	q, err := strconv.ParseFloat(quota, 64)
	if err != nil || q <= 0 {
		return 0
	}
	p, err := strconv.ParseFloat(period, 64)
	if err != nil || p <= 0 {
		return 0
	}
	return q / p
}
