package main

import (
	"encoding/json"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"text/tabwriter"

	backendcpu "github.com/minfer-go/minfer/backend-cpu"
	"github.com/minfer-go/minfer/cli/internal/env"
)

type envCmd struct {
	JSON bool `name:"json" help:"Print JSON."`
}

// Run lists the gates with their values.
func (c *envCmd) Run(a *app) error {
	if c.JSON {
		type row struct {
			Name    string `json:"name"`
			Type    string `json:"type"`
			Default string `json:"default"`
			Value   string `json:"value"`
			Stable  bool   `json:"stable"`
			Meaning string `json:"meaning"`
		}
		rows := []row{}
		for _, g := range env.Gates {
			rows = append(rows, row{g.Name, g.Type, g.Default, env.Get(g.Name), g.Stable, g.Meaning})
		}
		return json.NewEncoder(a.stdout).Encode(rows)
	}
	w := tabwriter.NewWriter(a.stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "NAME\tTYPE\tVALUE\tDEFAULT\tMEANING")
	for _, g := range env.Gates {
		meaning := g.Meaning
		if !g.Stable {
			meaning += " (may change)"
		}
		fmt.Fprintf(w, "%s\t%s\t%q\t%q\t%s\n", g.Name, g.Type, env.Get(g.Name), g.Default, meaning)
	}
	return w.Flush()
}

type versionCmd struct{}

// Run shows the version, what it was built with and for, and the CPU paths of this machine.
func (versionCmd) Run(a *app) error {
	version := "v0.1.0"
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, s := range info.Settings {
			if s.Key == "vcs.revision" {
				version += " " + s.Value
			}
		}
	}
	_, err := fmt.Fprintf(a.stdout, "minfer-cli %s, %s %s/%s, CPU paths %v\n", version, runtime.Version(), runtime.GOOS, runtime.GOARCH, backendcpu.Paths())
	return err
}

type templateCmd struct {
	modelFlag
	Template string `placeholder:"FILE" help:"Template file (Jinja) instead of the model's."`
	JSON     bool   `name:"json" help:"Print a JSON object with the text and the token ids."`
	Messages string `arg:"" help:"JSON file: an object with messages and, optionally, tools, add_generation_prompt, enable_thinking."`
}

// Help shows examples.
func (templateCmd) Help() string {
	return "Examples:\n  minfer-cli template messages.json\n  minfer-cli template --template qwen3.jinja messages.json\n\nmessages.json: {\"messages\":[{\"role\":\"user\",\"content\":\"Hello\"}],\"add_generation_prompt\":true}"
}

// isTerminal reports whether f is a terminal.
func isTerminal(f *os.File) bool {
	st, err := f.Stat()
	return err == nil && st.Mode()&os.ModeCharDevice != 0
}
