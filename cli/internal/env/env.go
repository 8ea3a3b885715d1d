// Package env is the one place that reads the process's environment.
package env

import (
	"fmt"
	"os"
	"strconv"
	"strings"
)

// Gate is an environment variable that changes what the program does.
type Gate struct {
	Name    string
	Type    string // "string", "int" or "bool"
	Default string
	Meaning string
	Stable  bool // stays in later versions
}

// Gates lists every gate.
var Gates = []Gate{
	{"MINFER_MODEL", "string", "", "model file used when -m is not given, instead of the embedded one", true},
	{"MINFER_THREADS", "int", "0", "CPU threads when -t is not given; 0: what affinity and the cgroup's quota allow", true},
	{"MINFER_CPU_PATH", "string", "", "instruction path: avx512-vnni, avx2 or generic; empty: the fastest there is", true},
}

// Get gives a gate's value, or its default. Asking for a variable that isn't a gate is a bug.
func Get(name string) string {
	for _, g := range Gates {
		if g.Name == name {
			if v, ok := os.LookupEnv(name); ok {
				return v
			}
			return g.Default
		}
	}
	panic("env: " + name + " is not in the table of gates")
}

// Int gives an integer gate's value.
func Int(name string) (int, error) {
	n, err := strconv.Atoi(Get(name))
	if err != nil {
		return 0, fmt.Errorf("environment: %s=%q is not an integer", name, Get(name))
	}
	return n, nil
}

// Check reports the first malformed value, or a MINFER_ variable that no gate has.
func Check() error {
	for _, g := range Gates {
		if g.Type == "int" {
			if _, err := Int(g.Name); err != nil {
				return err
			}
		}
	}
	for _, kv := range os.Environ() {
		name, _, _ := strings.Cut(kv, "=")
		if strings.HasPrefix(name, "MINFER_") && !strings.HasPrefix(name, "MINFER_TEST_") && !known(name) {
			return fmt.Errorf("environment: %s is not known (see minfer-cli env)", name)
		}
	}
	return nil
}

func known(name string) bool {
	for _, g := range Gates {
		if g.Name == name {
			return true
		}
	}
	return false
}
