package bench

import (
	"encoding/csv"
	"encoding/json"
	"encoding/xml"
	"io"
	"reflect"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func example() []Result {
	base := Result{Model: "a | b", File: "f.gguf", Size: 3 << 30, Params: 1_543_000_000, CPU: "CPU & Co", Backend: "cpu", Path: "avx2", Threads: 2, TypeK: "f16", TypeV: "q8_0",
		Test: "pp512", Kind: prefill, N: 512, TokS: 123.456, Stddev: 1.5, Median: 123, Samples: []float64{122, 124.9}, GBs: 0.5, GMACs: 60, ReadGBs: 30, Int8GMACs: 200,
		ReadShare: 0.0166, Int8Share: 0.3, Output: checked}
	deep, slow, gpu := base, base, base
	deep.Test, deep.Depth, deep.TokS, deep.ReadGBs = "pp512 @ d1024", 1024, 60, 31
	slow.Test, slow.Kind, slow.N, slow.Threads, slow.TokS, slow.TypeV, slow.Size, slow.Params = "tg128", decode, 128, 1, 9, "f16", 500<<20, 494_000_000
	gpu.Backend, gpu.Device, gpu.Path, gpu.Threads, gpu.ReadGBs, gpu.Int8GMACs, gpu.ReadShare, gpu.Int8Share = "cuda", "Card 9", "", 0, 4000, 0, 0.75, 0
	return []Result{base, deep, slow, gpu}
}

func write(t *testing.T, format string) string {
	t.Helper()
	var b strings.Builder
	require.NoError(t, Write(&b, format, example()))
	return b.String()
}

func TestWriteTable(t *testing.T) {
	require.Equal(t, `| model |       size |   params | backend  | threads | KV       |          test |           t/s | GB/s | of read | GMAC/s | of int8 |
| ----- | ---------: | -------: | -------- | ------: | -------- | ------------: | ------------: | ---: | ------: | -----: | ------: |
| a / b |   3.00 GiB |   1.54 B | cpu avx2 |       2 | f16/q8_0 |         pp512 | 123.46 ± 1.50 | 0.50 |   1.7 % |  60.00 |  30.0 % |
| a / b |   3.00 GiB |   1.54 B | cpu avx2 |       2 | f16/q8_0 | pp512 @ d1024 |  60.00 ± 1.50 | 0.50 |   1.7 % |  60.00 |  30.0 % |
| a / b | 500.00 MiB | 494.00 M | cpu avx2 |       1 | f16      |         tg128 |   9.00 ± 1.50 | 0.50 |   1.7 % |  60.00 |  30.0 % |
| a / b |   3.00 GiB |   1.54 B | cuda     |       0 | f16/q8_0 |         pp512 | 123.46 ± 1.50 | 0.50 |  75.0 % |  60.00 |       - |

t/s: mean ± standard deviation of 2 repetitions after a warm-up. Output of every test: finite, best token as in a reference step.

Limits of this machine (CPU & Co, avx2, 2 threads), measured between the tests: reads 30.0 to 31.0 GB/s, int8 200.0 GMAC/s.

Limits of this machine (CPU & Co, avx2, 1 thread), measured between the tests: reads 30.0 GB/s, int8 200.0 GMAC/s.

Limit of this device (Card 9), measured before the tests: its memory copies 4000.0 GB/s, reads and writes counted.
`, write(t, "md"))
}

func TestWriteJSON(t *testing.T) {
	var whole []Result
	require.NoError(t, json.Unmarshal([]byte(write(t, "json")), &whole))
	require.Equal(t, example(), whole)
	lines := strings.Split(strings.TrimSuffix(write(t, "jsonl"), "\n"), "\n")
	require.Len(t, lines, 4)
	for i, l := range lines {
		var all map[string]any
		require.NoError(t, json.Unmarshal([]byte(l), &all))
		for f := range reflect.TypeFor[Result]().Fields() {
			if name, _, _ := strings.Cut(f.Tag.Get("json"), ","); name != "profile" {
				require.Contains(t, all, name, "columns are the same on every backend")
			}
		}
		var r Result
		require.NoError(t, json.Unmarshal([]byte(l), &r))
		require.Equal(t, example()[i], r)
	}
}

// A line of CSV has what a line of JSON has, but for the repetitions one by one.
func TestWriteCSV(t *testing.T) {
	table, err := csv.NewReader(strings.NewReader(write(t, "csv"))).ReadAll()
	require.NoError(t, err)
	require.Len(t, table, 5)
	var names []string
	for f := range reflect.TypeFor[Result]().Fields() {
		if name, _, _ := strings.Cut(f.Tag.Get("json"), ","); name != "samples_ts" && name != "profile" { // lists have no cell
			names = append(names, name)
		}
	}
	require.Equal(t, names, table[0])
	cells := map[string]string{}
	for i, name := range names {
		cells[name] = table[2][i]
	}
	require.Equal(t, "a | b", cells["model"])
	require.Equal(t, "pp512 @ d1024", cells["test"])
	require.Equal(t, "60.000000", cells["avg_ts"])
	require.Equal(t, "31.000000", cells["limit_gb_per_second"])
	require.Equal(t, checked, cells["output"])
}

func TestWriteRefuses(t *testing.T) {
	require.ErrorContains(t, Write(io.Discard, "xml", nil), `"xml": want one of md, csv, json, jsonl`)
	for _, f := range Formats {
		require.NoError(t, Write(io.Discard, f, nil))
	}
}

// element of an SVG document.
type element struct {
	XMLName  xml.Name
	Attrs    []xml.Attr `xml:",any,attr"`
	Text     string     `xml:",chardata"`
	Children []element  `xml:",any"`
}

func (e *element) find(name string) (found []element) {
	if e.XMLName.Local == name {
		found = append(found, *e)
	}
	for i := range e.Children {
		found = append(found, e.Children[i].find(name)...)
	}
	return found
}

func (e *element) attr(name string) string {
	for _, a := range e.Attrs {
		if a.Name.Local == name {
			return a.Value
		}
	}
	return ""
}

func TestPlot(t *testing.T) {
	results := example()
	results[2].Model = "<script>"
	var b strings.Builder
	require.NoError(t, Plot(&b, results))
	var svg element
	d := xml.NewDecoder(strings.NewReader(b.String()))
	require.NoError(t, d.Decode(&svg))
	require.EqualValues(t, b.Len()-1, d.InputOffset(), "one document and a newline")
	require.Equal(t, xml.Name{Space: "http://www.w3.org/2000/svg", Local: "svg"}, svg.XMLName)
	require.Equal(t, "0 0 640 600", svg.attr("viewBox"), "panels of prefill and decode")
	require.Empty(t, svg.find("script"))

	lines := svg.find("polyline")
	require.Len(t, lines, 3, "pp512 with 2 threads, on the GPU, tg128 with one")
	var points [][2]float64
	for _, p := range strings.Fields(lines[0].attr("points")) {
		x, y, ok := strings.Cut(p, ",")
		require.True(t, ok)
		fx, errX := strconv.ParseFloat(x, 64)
		fy, errY := strconv.ParseFloat(y, 64)
		require.NoError(t, errX)
		require.NoError(t, errY)
		points = append(points, [2]float64{fx, fy})
	}
	require.Len(t, points, 2)
	require.Equal(t, 70.0, points[0][0], "depth 0 at the left end")
	require.Equal(t, 490.0, points[1][0], "depth 1024 at the right end")
	zero, scale := 250.0, 210/150.0 // the axis goes to 150, the next whole step of 50 above the tallest bar
	require.InDelta(t, zero-123.456*scale, points[0][1], 0.06)
	require.InDelta(t, zero-60*scale, points[1][1], 0.06)
	var texts []string
	for _, e := range svg.find("text") {
		texts = append(texts, e.Text)
	}
	for _, want := range []string{"a | b, KV f16/q8_0, cpu avx2: prefill", "pp512, 2 threads", "pp512, cuda", "tg128, 1 thread", "tokens a second", "tokens in the context", "0", "1024", "150"} {
		require.Contains(t, texts, want)
	}
	require.ErrorContains(t, Plot(io.Discard, nil), "no results")
}

// Depths in any order, more lines than colours and than the axes are high, and steps that binary fractions don't hold.
func TestPlotOfMany(t *testing.T) {
	var results []Result
	for i := range 20 {
		for _, depth := range []int{512, 0, 64} {
			r := example()[0]
			r.N, r.Depth, r.TokS, r.Stddev = 1+i, depth, 0.55, 0
			results = append(results, r)
		}
	}
	var b strings.Builder
	require.NoError(t, Plot(&b, results))
	var svg element
	require.NoError(t, xml.Unmarshal([]byte(b.String()), &svg))
	height, err := strconv.Atoi(svg.attr("height"))
	require.NoError(t, err)
	styles := map[string]bool{}
	for _, l := range svg.find("polyline") {
		require.Regexp(t, `^70\.0,\S+ 122\.5,\S+ 490\.0,\S+$`, l.attr("points"))
		styles[l.attr("stroke")+l.attr("stroke-dasharray")] = true
	}
	require.Len(t, styles, 20)
	var ticks []string
	for _, e := range svg.find("text") {
		if e.attr("text-anchor") == "end" {
			ticks = append(ticks, e.Text)
		}
		if e.attr("y") != "" {
			y, err := strconv.ParseFloat(e.attr("y"), 64)
			require.NoError(t, err)
			require.Less(t, y, float64(height), e.Text)
		}
	}
	require.Equal(t, []string{"0", "0.1", "0.2", "0.3", "0.4", "0.5", "0.6"}, ticks)
}

func TestNiceStep(t *testing.T) {
	for top, want := range map[float64]float64{0: 1, 1: 0.2, 5: 1, 7: 2, 10: 2, 29: 5, 31: 10, 140: 50, 124.956: 50, 1e6: 2e5} {
		require.InEpsilon(t, want, niceStep(top), 1e-9, "%g", top)
	}
}
