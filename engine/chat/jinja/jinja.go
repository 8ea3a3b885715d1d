// Package jinja is a small interpreter for the part of the Jinja template language that chat templates use, made for
// templates that come from a stranger's file.
//
// It differs from a general Jinja library in two ways, and they are the reason why it exists (docs/adr/0002-jinja.md):
//
//   - Everything a template can spend is bounded: the size of its source, its nesting, the steps and bytes of parsing
//     and rendering, the depth of calls. A bound that is passed is an error (ErrLimit), never a dead process.
//   - Every string knows which of its bytes came from the caller's data and which from the template. The marks survive
//     concatenation, slices, filters and methods, so that a tokenizer can recognise special tokens in template text only.
//
// The model is jinja2 3.1.6 as transformers 5 sets it up: trim_blocks, lstrip_blocks, no autoescape, the immutable
// sandbox, loop controls, `tojson` as json.dumps(ensure_ascii=False), and the {% generation %} tag.
// Left out, and refused by name when a template is parsed: inheritance and imports (block, extends, include, import, from),
// recursive loops, autoescape, i18n, do, and the filters and methods missing from the tables in filters.go and methods.go.
// Known differences: integers beyond 64 bits pass through but can't be computed with; upper and lower map single code points (and ß);
// only `+` knows about the escaping of |safe and |escape; other operators, filters and methods give plain text.
package jinja

import (
	"errors"
	"fmt"
	"runtime"
)

// The kinds of failure; every error of this package wraps one of them and is an *Error.
var (
	ErrSyntax      = errors.New("template syntax error")
	ErrUnsupported = errors.New("unsupported template construct")
	ErrLimit       = errors.New("template limit exceeded")
	ErrRuntime     = errors.New("template error")
	ErrRaised      = errors.New("raised by the template") // raise_exception
	ErrInternal    = errors.New("fault in the template interpreter")
)

// Error is a failure while parsing or rendering. Line is the template's line (from 1; 0 when unknown).
type Error struct {
	Kind error // one of the sentinels above
	Line int
	Msg  string
}

func (e *Error) Error() string {
	if e.Line > 0 {
		return fmt.Sprintf("jinja: line %d: %v: %s", e.Line, e.Kind, e.Msg)
	}
	return fmt.Sprintf("jinja: %v: %s", e.Kind, e.Msg)
}

func (e *Error) Unwrap() error { return e.Kind }

// Limits bound what one template may spend. The zero value of a field means its default.
type Limits struct {
	Source int   // bytes of template source; default 256 KiB (the largest public templates have about 30 KiB)
	Steps  int64 // steps of one rendering: nodes evaluated, loop rounds, and bytes scanned / 32; default 2 million
	Bytes  int64 // bytes allocated in one rendering, counted when made and never given back; default 32 MiB
	Calls  int   // macro calls inside one another; default 64
}

// Bounds of nesting that protect the goroutine's stack. Chains such as a+b+c… or a.b.c… count as nesting when they are evaluated.
const (
	maxNesting = 100  // brackets in brackets, tags in tags
	maxChain   = 500  // operators, attributes or filters in one chain
	maxDepth   = 1500 // evaluation, and walks through nested values
	maxRange   = 100000
	maxName    = 1000 // bytes of a name: every look-up of it walks them
	maxShown   = 80   // bytes of a name in a message
)

func (l Limits) withDefaults() Limits {
	if l.Source == 0 {
		l.Source = 256 << 10
	}
	if l.Steps == 0 {
		l.Steps = 2_000_000
	}
	if l.Bytes == 0 {
		l.Bytes = 32 << 20
	}
	if l.Calls == 0 {
		l.Calls = 64
	}
	return l
}

// Template is a parsed template. It is immutable and safe for use by several goroutines.
type Template struct {
	body []stmt
}

// Parse reads a template. Unknown tags, filters, tests and known but unsupported methods are refused here, by name.
func Parse(source string, l Limits) (t *Template, err error) {
	l = l.withDefaults()
	if len(source) > l.Source {
		return nil, &Error{Kind: ErrLimit, Msg: fmt.Sprintf("the source has %d bytes, at most %d are allowed", len(source), l.Source)}
	}
	p := &parser{}
	defer catch(&err, func() int { return p.line() })
	p.toks = lex(source)
	return &Template{body: p.template()}, nil
}

// Render runs the template with the given variables. The result carries the marks of literal text (Str.Literal).
func (t *Template) Render(vars map[string]Value, l Limits) (out Str, err error) {
	l = l.withDefaults()
	r := &run{steps: l.Steps, bytes: l.Bytes, limits: l}
	defer catch(&err, func() int { return r.line })
	root := &scope{parent: &scope{names: globals}}
	root.names = make(map[string]Value, len(vars)+8)
	for name, v := range vars {
		if v == nil {
			v = None{}
		}
		root.names[name] = v
	}
	w := &builder{r: r}
	r.exec(t.body, root, w)
	return w.done(), nil
}

// fail leaves the parser or interpreter with an error; catch turns it into a return value at the package's border.
func fail(kind error, format string, args ...any) {
	panic(&Error{Kind: kind, Msg: fmt.Sprintf(format, args...)})
}

func catch(err *error, line func() int) {
	switch x := recover().(type) {
	case nil:
	case *Error:
		if x.Line == 0 {
			x.Line = line()
		}
		*err = x
	case runtime.Error:
		// A template must not be able to take the process down even through a fault of ours; the fuzz tests look for these.
		*err = &Error{Kind: ErrInternal, Line: line(), Msg: x.Error()}
	default:
		panic(x)
	}
}
