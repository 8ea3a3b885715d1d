package jinja

import (
	"fmt"
	"strings"
	"time"
)

// Now gives the time that strftime_now shows; tests replace it.
var Now = time.Now

// globals are the names that every template has.
var globals = map[string]Value{
	"range": &function{"range", func(r *run, a *args) Value {
		if len(a.pos) == 0 || len(a.pos) > 3 || len(a.keys) > 0 {
			fail(ErrRuntime, "range expected 1 to 3 arguments, got %d", len(a.pos))
		}
		lo, hi, step := 0, a.int(a.pos[0], 0), 1
		if len(a.pos) > 1 {
			lo, hi = hi, a.int(a.pos[1], 0)
		}
		if len(a.pos) > 2 {
			step = a.int(a.pos[2], 1)
		}
		if step == 0 {
			fail(ErrRuntime, "range() arg 3 must not be zero")
		}
		n := max(0, (hi-lo+step-sign(step))/step)
		if n > maxRange {
			fail(ErrLimit, "a range of %d items, at most %d are allowed", n, maxRange)
		}
		r.step(n)
		items := make([]Value, n)
		for i := range items {
			items[i] = Int(lo + i*step)
		}
		l := r.list(items, rangeList)
		l.note = fmt.Sprintf("range(%d, %d)", lo, hi)
		return l
	}},
	"namespace": &function{"namespace", func(r *run, a *args) Value {
		ns := &namespace{NewDict()}
		for _, p := range a.pos {
			d, ok := p.(*Dict)
			if !ok {
				fail(ErrRuntime, "namespace() takes a mapping, not %s", p.typeName())
			}
			for i, k := range d.keys {
				ns.attrs.put(k, r.hash(k), d.vals[i])
			}
		}
		for i, k := range a.keys {
			ns.attrs.Set(Text(k), a.kw[i])
		}
		r.allocItems(3 * ns.attrs.Len())
		return ns
	}},
	"dict": &function{"dict", func(r *run, a *args) Value {
		d := NewDict()
		for _, p := range a.pos {
			src, ok := p.(*Dict)
			if !ok {
				fail(ErrRuntime, "dict() takes a mapping, not %s", p.typeName())
			}
			for i, k := range src.keys {
				d.put(k, r.hash(k), src.vals[i])
			}
		}
		for i, k := range a.keys {
			d.Set(Text(k), a.kw[i])
		}
		r.allocItems(3 * d.Len())
		return d
	}},
	"raise_exception": &function{"raise_exception", func(r *run, a *args) Value {
		fail(ErrRaised, "%s", r.toStr(a.bind("message")[0]).s)
		return nil
	}},
	"strftime_now": &function{"strftime_now", func(r *run, a *args) Value {
		format := a.str(a.bind("format")[0]).s
		r.step(len(format)) // a directive takes as long as some steps
		w := &builder{r: r}
		w.text(strftime(Now(), format))
		return w.done()
	}},
}

func sign(n int) int {
	if n < 0 {
		return -1
	}
	return 1
}

// strftime formats a time with the directives that templates use; another is refused.
func strftime(t time.Time, format string) string {
	layouts := map[byte]string{'Y': "2006", 'm': "01", 'd': "02", 'H': "15", 'M': "04", 'S': "05", 'B': "January", 'b': "Jan", 'A': "Monday", 'a': "Mon", 'y': "06", 'I': "03", 'p': "PM", 'j': "002"}
	var b strings.Builder
	for i := 0; i < len(format); i++ {
		if format[i] != '%' || i+1 == len(format) {
			b.WriteByte(format[i])
			continue
		}
		i++
		bare := format[i] == '-' && i+1 < len(format) // no leading zero
		if bare {
			i++
		}
		switch l, ok := layouts[format[i]]; {
		case ok && bare:
			s := strings.TrimLeft(t.Format(l), "0")
			if s == "" {
				s = "0"
			}
			b.WriteString(s)
		case ok:
			b.WriteString(t.Format(l))
		case format[i] == '%' && !bare:
			b.WriteByte('%')
		default:
			fail(ErrUnsupported, "strftime directive %%%c", format[i])
		}
	}
	return b.String()
}
