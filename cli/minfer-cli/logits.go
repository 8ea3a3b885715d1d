package main

import (
	"bufio"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"strings"

	"github.com/minfer-go/minfer/engine"
)

type logitsCmd struct {
	engineFlags
	Tokens string `required:"" placeholder:"IDS" help:"Token ids separated by commas, or @FILE."`
	Last   bool   `help:"Only the logits after the last token."`
	Out    string `placeholder:"FILE" help:"Write them as float32, little-endian, [positions, n_vocab]."`
	Top    int    `default:"5" placeholder:"N" help:"Print the N largest of each position."`
	JSON   bool   `name:"json" help:"Print JSON lines."`
}

// Help shows examples.
func (logitsCmd) Help() string {
	return "Examples:\n  minfer-cli logits --tokens 424,418,256 --top 3\n  minfer-cli logits -m model.gguf --tokens @ids.txt --last --out logits.f32"
}

// logitsBatch positions are computed at a time, so that memory stays small.
const logitsBatch = 32

// Run computes and prints them.
func (c *logitsCmd) Run(a *app) (err error) {
	text := c.Tokens
	if name, ok := strings.CutPrefix(text, "@"); ok {
		if text, err = readFile("--tokens", name); err != nil {
			return err
		}
	}
	ids, err := parseIDs(text)
	if err != nil {
		return err
	}
	if len(ids) == 0 {
		return usage("--tokens: no ids")
	}
	if c.Top < 0 {
		return usage("--top %d: want 0 or more", c.Top)
	}
	key, value, err := c.formats()
	if err != nil {
		return err
	}
	m, err := c.load(a, "")
	if err != nil {
		return err
	}
	defer m.Close()
	ctx, err := m.NewContext(engine.ContextOptions{Ctx: len(ids), KeyType: key, ValueType: value})
	if err != nil {
		return err
	}
	defer ctx.Close()
	var out *bufio.Writer
	if c.Out != "" {
		f, cerr := os.Create(c.Out)
		if cerr != nil {
			return fmt.Errorf("--out: %w", cerr)
		}
		out = bufio.NewWriterSize(f, 1<<20)
		defer func() {
			if ferr := out.Flush(); err == nil && ferr != nil {
				err = fmt.Errorf("--out: %w", ferr)
			}
			if cerr := f.Close(); err == nil && cerr != nil {
				err = fmt.Errorf("--out: %w", cerr)
			}
		}()
	}
	batch := logitsBatch
	if c.Last {
		batch = len(ids)
	}
	for from := 0; from < len(ids); from += batch {
		rows := make([]engine.Row, min(batch, len(ids)-from))
		for i := range rows {
			rows[i] = engine.Row{Token: ids[from+i], Output: !c.Last || from+i == len(ids)-1}
		}
		if err := ctx.Step(a.ctx, rows); err != nil {
			return err
		}
		n := len(rows)
		if c.Last {
			n = 1
		}
		for i := range n {
			position := from + i
			if c.Last {
				position = len(ids) - 1
			}
			if err := c.show(a.stdout, out, position, ids[position], ctx.Logits(i)); err != nil {
				return err
			}
		}
	}
	times, err := profileOf(m)
	return errors.Join(err, times.print(a.stderr, 0))
}

type topLogit struct {
	ID    int32   `json:"id"`
	Logit float32 `json:"logit"`
}

func (c *logitsCmd) show(w io.Writer, out *bufio.Writer, position int, token int32, logits []float32) error {
	if out != nil {
		var b [4]byte
		for _, x := range logits {
			binary.LittleEndian.PutUint32(b[:], math.Float32bits(x))
			if _, err := out.Write(b[:]); err != nil {
				return fmt.Errorf("--out: %w", err)
			}
		}
	}
	best := top(logits, c.Top)
	if c.JSON {
		return json.NewEncoder(w).Encode(map[string]any{"position": position, "token": token, "top": best})
	}
	if len(best) == 0 {
		return nil
	}
	line := fmt.Sprintf("%d\t%d", position, token)
	for _, b := range best {
		line += fmt.Sprintf("\t%d %.6g", b.ID, b.Logit)
	}
	_, err := fmt.Fprintln(w, line)
	return err
}

// top gives the n largest, the lower id first among equals.
func top(logits []float32, n int) []topLogit {
	best := make([]topLogit, 0, n+1)
	for id, x := range logits {
		if len(best) == n && (n == 0 || x <= best[n-1].Logit) {
			continue
		}
		at, _ := slices.BinarySearchFunc(best, x, func(b topLogit, x float32) int {
			if b.Logit >= x {
				return -1
			}
			return 1
		})
		best = slices.Insert(best, at, topLogit{int32(id), x})
		best = best[:min(len(best), n)]
	}
	return best
}
