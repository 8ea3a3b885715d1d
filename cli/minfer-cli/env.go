package main

import (
	"encoding/json"
	"fmt"
	"text/tabwriter"

	"github.com/minfer-go/minfer/cli/internal/env"
)

type envCmd struct {
	JSON bool `name:"json" help:"Print JSON."`
}

// Help says what the columns mean.
func (envCmd) Help() string {
	return "Flags win over variables. A malformed value is an error of every command.\n\nExample:\n  MINFER_THREADS=1 minfer-cli run \"Hello\""
}

// Run lists the gates with their values; then it fails if one is malformed, as every other command does at once.
func (c *envCmd) Run(a *app) error {
	if err := c.print(a); err != nil {
		return err
	}
	return env.Check()
}

func (c *envCmd) print(a *app) error {
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
