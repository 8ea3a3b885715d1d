package main

import (
	"fmt"
	"runtime"
	"runtime/debug"

	backendcpu "github.com/minfer-go/minfer/backend-cpu"
)

type versionCmd struct{}

// version of the modules, in go.mod's spelling.
const version = "v0.1.0"

// Run shows the version, what it was built with and for, and the CPU paths of this machine.
func (versionCmd) Run(a *app) error {
	v := version
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, s := range info.Settings {
			if s.Key == "vcs.revision" {
				v += " " + s.Value
			}
		}
	}
	_, err := fmt.Fprintf(a.stdout, "minfer-cli %s, %s %s/%s, CPU paths %v\n", v, runtime.Version(), runtime.GOOS, runtime.GOARCH, backendcpu.Paths())
	return err
}
