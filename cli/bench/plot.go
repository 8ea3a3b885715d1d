package bench

import (
	"encoding/xml"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
)

// The chart is written by hand: gonum/plot would bring nine modules, 8 MB of fonts and a millisecond at every start of the program for
// this one picture.

// panel is one pair of axes: all tests of a kind, over the depth.
type panel struct {
	title  string
	lines  []line
	depths []int
	top    float64 // end of the vertical axis
}

type line struct {
	name   string
	points []Result
}

// Geometry of a panel, in pixels.
const (
	plotWidth   = 640
	panelHeight = 300
	left, right = 70, 150 // margins; the legend stands in the right one
	upper, low  = 40, 50
	legendRow   = 18
)

var colours = []string{"#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000"} // told apart by colour-blind people too

// Plot draws tokens a second by depth as SVG: a panel for each kind of test, a line for each test and number of threads, bars of one
// standard deviation.
func Plot(w io.Writer, results []Result) error {
	panels := panelsOf(results)
	if len(panels) == 0 {
		return fmt.Errorf("bench: plot: no results")
	}
	var b strings.Builder
	height := 0
	for _, p := range panels {
		height += p.height()
	}
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %[1]d %[2]d" font-family="sans-serif" font-size="12">`+"\n",
		plotWidth, height)
	fmt.Fprintf(&b, `<title>%s</title><rect width="%d" height="%d" fill="white"/>`+"\n", escape(titleOf(results)), plotWidth, height)
	at := 0
	for _, p := range panels {
		fmt.Fprintf(&b, `<g transform="translate(0 %d)">`+"\n", at)
		p.draw(&b)
		b.WriteString("</g>\n")
		at += p.height()
	}
	b.WriteString("</svg>\n")
	_, err := io.WriteString(w, b.String())
	return err
}

func titleOf(results []Result) string {
	r := &results[0]
	return fmt.Sprintf("%s, KV %s, %s", r.Model, kvTypes(r), strings.TrimSpace(r.Backend+" "+r.Path))
}

func panelsOf(results []Result) (panels []*panel) {
	for _, k := range [][2]string{{prefill, "prefill"}, {decode, "decode"}, {batch, "batches"}} {
		p := &panel{}
		for _, r := range results {
			if r.Kind == k[0] {
				p.add(r)
			}
		}
		if len(p.lines) > 0 {
			p.title = titleOf(results) + ": " + k[1]
			p.sort()
			panels = append(panels, p)
		}
	}
	return panels
}

func (p *panel) add(r Result) {
	name := fmt.Sprintf("%s%d, %s", r.Kind, r.N, r.Backend)
	if r.Threads > 0 {
		name = fmt.Sprintf("%s%d, %s", r.Kind, r.N, plural(r.Threads, "thread"))
	}
	at := slices.IndexFunc(p.lines, func(l line) bool { return l.name == name })
	if at < 0 {
		at = len(p.lines)
		p.lines = append(p.lines, line{name: name})
	}
	p.lines[at].points = append(p.lines[at].points, r)
	p.depths = append(p.depths, r.Depth)
	p.top = max(p.top, r.TokS+r.Stddev)
}

// sort puts depths in order, whatever order they were measured in.
func (p *panel) sort() {
	slices.Sort(p.depths)
	p.depths = slices.Compact(p.depths)
	for _, l := range p.lines {
		slices.SortStableFunc(l.points, func(a, b Result) int { return a.Depth - b.Depth })
	}
}

// height makes room for a legend longer than the axes are high.
func (p *panel) height() int { return max(panelHeight, upper+10+legendRow*len(p.lines)) }

func (p *panel) x(depth int) float64 {
	span := float64(max(p.depths[len(p.depths)-1]-p.depths[0], 1))
	return left + float64(depth-p.depths[0])/span*(plotWidth-left-right)
}

func (p *panel) y(v float64) float64 { return panelHeight - low - v/p.top*(panelHeight-upper-low) }

func (p *panel) draw(b *strings.Builder) {
	step := niceStep(p.top)
	p.top = math.Ceil(p.top/step) * step
	fmt.Fprintf(b, `<text x="%d" y="20" font-size="14">%s</text>`+"\n", left, escape(p.title))
	for i := range int(math.Round(p.top/step)) + 1 {
		v := float64(i) * step
		fmt.Fprintf(b, `<path d="M%d %.1fH%d" stroke="#dddddd"/><text x="%d" y="%.1f" text-anchor="end">%s</text>`+"\n",
			left, p.y(v), plotWidth-right, left-6, p.y(v)+4, strconv.FormatFloat(math.Round(v*1e6)/1e6, 'f', -1, 64))
	}
	last := math.Inf(-1)
	for _, d := range p.depths {
		if x := p.x(d); x-last > 40 { // labels must not run into each other
			last = x
			fmt.Fprintf(b, `<path d="M%.1f %dv5" stroke="black"/>`, x, panelHeight-low)
			fmt.Fprintf(b, `<text x="%.1f" y="%d" text-anchor="middle">%d</text>`+"\n", x, panelHeight-low+18, d)
		}
	}
	fmt.Fprintf(b, `<path d="M%d %dV%dH%d" fill="none" stroke="black"/>`+"\n", left, upper, panelHeight-low, plotWidth-right)
	fmt.Fprintf(b, `<text x="%d" y="%d" text-anchor="middle">tokens in the context</text>`+"\n", left+(plotWidth-left-right)/2, panelHeight-low+36)
	fmt.Fprintf(b, `<text transform="translate(16 %d) rotate(-90)" text-anchor="middle">tokens a second</text>`+"\n", upper+(panelHeight-upper-low)/2)
	for i, l := range p.lines {
		p.drawLine(b, l, stroke(i), upper+10+legendRow*i)
	}
}

// stroke of the i-th line: its colour, and dashes where the colours are used up.
func stroke(i int) (s strokeStyle) {
	s.colour = colours[i%len(colours)]
	if again := i / len(colours); again > 0 {
		s.dashes = fmt.Sprintf(` stroke-dasharray="%d 3"`, 12/again)
	}
	return s
}

type strokeStyle struct{ colour, dashes string }

func (p *panel) drawLine(b *strings.Builder, l line, s strokeStyle, legend int) {
	var path []string
	for _, r := range l.points {
		path = append(path, fmt.Sprintf("%.1f,%.1f", p.x(r.Depth), p.y(r.TokS)))
	}
	fmt.Fprintf(b, `<polyline points="%s" fill="none" stroke="%s" stroke-width="2"%s/>`+"\n", strings.Join(path, " "), s.colour, s.dashes)
	for _, r := range l.points {
		x, y := p.x(r.Depth), p.y(r.TokS)
		fmt.Fprintf(b, `<path d="M%.1f %.1fV%.1f" stroke="%s"/>`, x, p.y(max(r.TokS-r.Stddev, 0)), p.y(r.TokS+r.Stddev), s.colour)
		fmt.Fprintf(b, `<circle cx="%.1f" cy="%.1f" r="3" fill="%s"><title>%s: %.2f ± %.2f tokens a second</title></circle>`+"\n",
			x, y, s.colour, escape(r.Test), r.TokS, r.Stddev)
	}
	fmt.Fprintf(b, `<path d="M%d %dh16" stroke="%s" stroke-width="2"%s/><text x="%d" y="%d">%s</text>`+"\n",
		plotWidth-right+8, legend, s.colour, s.dashes, plotWidth-right+28, legend+4, escape(l.name))
}

// niceStep is 1, 2 or 5 times a power of ten, so that about five of it reach top.
func niceStep(top float64) float64 {
	if !(top > 0) || math.IsInf(top, 0) {
		return 1
	}
	unit := math.Pow(10, math.Floor(math.Log10(top/5)))
	for _, k := range []float64{1, 2, 5} {
		if top/(k*unit) <= 6 {
			return k * unit
		}
	}
	return 10 * unit
}

func escape(s string) string {
	var b strings.Builder
	_ = xml.EscapeText(&b, []byte(s)) // writing to a Builder can't fail
	return b.String()
}
