package bench

import (
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/minfer-go/minfer/graph"
)

// Formats that Write knows.
var Formats = []string{"md", "csv", "json", "jsonl"}

// Write prints results: md is a table as llama-bench's, with the limits under it; json and jsonl have every field, csv those that aren't lists.
func Write(w io.Writer, format string, results []Result) error {
	switch format {
	case "md":
		return writeTable(w, results)
	case "csv":
		return writeCSV(w, results)
	case "json":
		enc := json.NewEncoder(w)
		enc.SetIndent("", "  ")
		return enc.Encode(results)
	case "jsonl":
		enc := json.NewEncoder(w)
		for _, r := range results {
			if err := enc.Encode(r); err != nil {
				return err
			}
		}
		return nil
	}
	return fmt.Errorf("bench: output format %q: want one of %s", format, strings.Join(Formats, ", "))
}

// column of the table; numbers are aligned to the right.
type column struct {
	title string
	left  bool
	cell  func(r *Result) string
}

var columns = []column{
	{"model", true, func(r *Result) string { return r.Model }},
	{"size", false, func(r *Result) string { return size(r.Size) }},
	{"params", false, func(r *Result) string { return count(r.Params) }},
	{"backend", true, func(r *Result) string { return strings.TrimSpace(r.Backend + " " + r.Path) }},
	{"threads", false, func(r *Result) string { return strconv.Itoa(r.Threads) }},
	{"KV", true, func(r *Result) string { return kvTypes(r) }},
	{"test", false, func(r *Result) string { return r.Test }},
	{"t/s", false, func(r *Result) string { return fmt.Sprintf("%.2f ± %.2f", r.TokS, r.Stddev) }},
	{"GB/s", false, func(r *Result) string { return fmt.Sprintf("%.2f", r.GBs) }},
	{"of read", false, func(r *Result) string { return share(r.ReadShare) }},
	{"GMAC/s", false, func(r *Result) string { return fmt.Sprintf("%.2f", r.GMACs) }},
	{"of int8", false, func(r *Result) string { return share(r.Int8Share) }},
}

func kvTypes(r *Result) string {
	if r.TypeK == r.TypeV {
		return r.TypeK
	}
	return r.TypeK + "/" + r.TypeV
}

func share(x float64) string {
	if x == 0 {
		return "-"
	}
	return fmt.Sprintf("%.1f %%", 100*x)
}

func size(n int64) string {
	if n >= 1<<30 {
		return fmt.Sprintf("%.2f GiB", float64(n)/(1<<30))
	}
	return fmt.Sprintf("%.2f MiB", float64(n)/(1<<20))
}

func count(n int64) string {
	if n >= 1e9 {
		return fmt.Sprintf("%.2f B", float64(n)/1e9)
	}
	return fmt.Sprintf("%.2f M", float64(n)/1e6)
}

func writeTable(w io.Writer, results []Result) error {
	lines := make([][]string, len(results)+1)
	widths := make([]int, len(columns))
	for i, c := range columns {
		lines[0] = append(lines[0], c.title)
		for j := range results {
			lines[j+1] = append(lines[j+1], strings.ReplaceAll(c.cell(&results[j]), "|", "/"))
		}
		for _, l := range lines {
			widths[i] = max(widths[i], utf8.RuneCountInString(l[i]))
		}
	}
	var b strings.Builder
	for i, l := range lines {
		for j, cell := range l {
			pad := strings.Repeat(" ", widths[j]-utf8.RuneCountInString(cell))
			if columns[j].left {
				cell += pad
			} else {
				cell = pad + cell
			}
			b.WriteString("| " + cell + " ")
		}
		b.WriteString("|\n")
		if i == 0 {
			for j, c := range columns {
				if c.left {
					b.WriteString("| " + strings.Repeat("-", widths[j]) + " ")
				} else {
					b.WriteString("| " + strings.Repeat("-", widths[j]-1) + ": ")
				}
			}
			b.WriteString("|\n")
		}
	}
	for _, l := range notes(results) {
		b.WriteString("\n" + l + "\n")
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// notes say what the table's figures were checked and measured against.
func notes(results []Result) (lines []string) {
	if len(results) == 0 {
		return nil
	}
	lines = append(lines, "t/s: mean ± standard deviation of "+plural(len(results[0].Samples), "repetition")+" after a warm-up. Output of every test: "+results[0].Output+".")
	var groups [][2]int // threads of each line, in order
	seen := map[string]bool{}
	for i, r := range results {
		if key := fmt.Sprint(r.Backend, r.Path, r.Threads); !seen[key] {
			seen[key] = true
			groups = append(groups, [2]int{i, r.Threads})
		}
	}
	for _, g := range groups {
		first := results[g[0]]
		var read, int8s []float64
		for _, r := range results {
			if r.Threads == g[1] && r.ReadGBs > 0 {
				read, int8s = append(read, r.ReadGBs), append(int8s, r.Int8GMACs)
			}
		}
		if len(read) == 0 {
			continue
		}
		if first.Device != "" {
			lines = append(lines, fmt.Sprintf("Limit of this device (%s), measured before the tests: its memory copies %s GB/s, reads and writes counted.", first.Device, spread(read)))
			continue
		}
		lines = append(lines, fmt.Sprintf("Limits of this machine (%s, %s, %s), measured between the tests: reads %s GB/s, int8 %s GMAC/s.",
			first.CPU, first.Path, plural(first.Threads, "thread"), spread(read), spread(int8s)))
	}
	return lines
}

func plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// spread shows the range of some numbers.
func spread(x []float64) string {
	lo, hi := fmt.Sprintf("%.1f", slices.Min(x)), fmt.Sprintf("%.1f", slices.Max(x))
	if lo == hi {
		return lo
	}
	return lo + " to " + hi
}

// WriteProfiles prints where the time of each test went, for backends that time their work.
func WriteProfiles(w io.Writer, results []Result) error {
	for _, r := range results {
		if len(r.Profile) == 0 {
			continue
		}
		threads := ""
		if r.Threads > 0 {
			threads = ", " + plural(r.Threads, "thread")
		}
		if _, err := fmt.Fprintf(w, "\n%s%s, %s:\n", r.Test, threads, plural(len(r.Samples), "repetition")); err != nil {
			return err
		}
		if err := graph.WriteProfile(w, r.Profile, 1e9*r.ReadGBs, 1e9*r.Int8GMACs); err != nil {
			return err
		}
	}
	return nil
}

func writeCSV(w io.Writer, results []Result) error {
	c := csv.NewWriter(w)
	head := []string{"model", "file", "model_size", "model_n_params", "cpu", "device", "backend", "path", "n_threads", "type_k", "type_v", "test", "kind", "n", "n_depth",
		"avg_ts", "stddev_ts", "median_ts", "gb_per_second", "gmac_per_second", "limit_gb_per_second", "limit_gmac_per_second", "share_of_read", "share_of_int8", "output"}
	if err := c.Write(head); err != nil {
		return err
	}
	for _, r := range results {
		line := []string{r.Model, r.File, fmt.Sprint(r.Size), fmt.Sprint(r.Params), r.CPU, r.Device, r.Backend, r.Path, fmt.Sprint(r.Threads), r.TypeK, r.TypeV, r.Test, r.Kind,
			fmt.Sprint(r.N), fmt.Sprint(r.Depth)}
		for _, x := range []float64{r.TokS, r.Stddev, r.Median, r.GBs, r.GMACs, r.ReadGBs, r.Int8GMACs, r.ReadShare, r.Int8Share} {
			line = append(line, strconv.FormatFloat(x, 'f', 6, 64))
		}
		if err := c.Write(append(line, r.Output)); err != nil {
			return err
		}
	}
	c.Flush()
	return c.Error()
}
