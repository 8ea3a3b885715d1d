package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
)

// usage is what ptxas -v says of one entry point.
type usage struct{ registers, stack, spillStores, spillLoads int }

var (
	entryLine = regexp.MustCompile(`Compiling entry function '([^']+)' for`)
	spillLine = regexp.MustCompile(`(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads`)
	usedLine  = regexp.MustCompile(`Used (\d+) registers`)
)

// readUsage parses the logs *.ptxas of a folder.
func readUsage(dir string) (map[string]usage, error) {
	logs, err := filepath.Glob(filepath.Join(dir, "*.ptxas"))
	if err != nil || len(logs) == 0 {
		return nil, fmt.Errorf("%s: no compiler logs (*.ptxas): build first", dir)
	}
	all := map[string]usage{}
	for _, log := range logs {
		data, err := os.ReadFile(log)
		if err != nil {
			return nil, err
		}
		lines := regexp.MustCompile(`\r?\n`).Split(string(data), -1)
		name := ""
		for _, line := range lines {
			if m := entryLine.FindStringSubmatch(line); m != nil {
				name = m[1]
				continue
			}
			u := all[name]
			if m := spillLine.FindStringSubmatch(line); m != nil {
				u.stack, u.spillStores, u.spillLoads = number(m[1]), number(m[2]), number(m[3])
			} else if m := usedLine.FindStringSubmatch(line); m != nil {
				u.registers = number(m[1])
			}
			if name != "" {
				all[name] = u
			}
		}
	}
	return all, nil
}

func number(s string) int {
	n, _ := strconv.Atoi(s) // the pattern lets digits through only
	return n
}

// checkResources holds the entry points of one architecture's logs against the manifest.
func (m *manifest) checkResources(dir string) error {
	all, err := readUsage(dir)
	if err != nil {
		return err
	}
	arch := filepath.Base(dir)
	var faults []error
	known := map[string]bool{"minfer_kernels_abi_" + m.hash: true}
	hot := 0
	for _, k := range m.kernels {
		known[k.Symbol] = true
		u, ok := all[k.Symbol]
		if !ok {
			if k.Only == "" || k.Only == arch {
				faults = append(faults, fmt.Errorf("kernel %s is in the manifest but in no .cu file", k.Symbol))
			}
			continue
		}
		if !k.Hot {
			continue
		}
		hot++
		if u.spillStores+u.spillLoads > 0 {
			faults = append(faults, fmt.Errorf("kernel %s spills: %d bytes stored, %d loaded", k.Symbol, u.spillStores, u.spillLoads))
		}
		if u.registers > k.Registers {
			faults = append(faults, fmt.Errorf("kernel %s takes %d registers, its limit is %d", k.Symbol, u.registers, k.Registers))
		}
	}
	for name := range all {
		if !known[name] {
			faults = append(faults, fmt.Errorf("kernel %s is not in the manifest", name))
		}
	}
	if len(faults) > 0 {
		return fmt.Errorf("%s: %w", arch, errors.Join(faults...))
	}
	fmt.Printf("%s: %d kernels, %d hot ones within their registers and without spills\n", arch, len(m.kernels), hot)
	return nil
}
