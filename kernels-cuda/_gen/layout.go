package main

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
	"unicode"
)

// manifest is the families with layouts worked out.
type manifest struct {
	structs []layout
	kernels []Kernel
	hash    string // of all that both sides must agree on
}

type layout struct {
	Struct
	fields []place
	size   int
}

type place struct {
	Field
	goName, goType string
	offset, bytes  int
}

var scalars = map[string]struct {
	goType string
	size   int
}{
	"int32_t": {"int32", 4}, "uint32_t": {"uint32", 4}, "float": {"float32", 4}, "int64_t": {"int64", 8}, "uint64_t": {"uint64", 8},
}

// resolve checks names and lays the structs out.
func resolve(families []Family) (*manifest, error) {
	m := &manifest{}
	byName, symbols := map[string]bool{}, map[string]bool{}
	for _, f := range families {
		for _, s := range f.Structs {
			if byName[s.Name] {
				return nil, fmt.Errorf("%s: struct %s is there twice", f.Name, s.Name)
			}
			byName[s.Name] = true
			l, err := place1(s)
			if err != nil {
				return nil, fmt.Errorf("%s: struct %s: %w", f.Name, s.Name, err)
			}
			m.structs = append(m.structs, l)
		}
	}
	for _, f := range families {
		for _, k := range f.Kernels {
			switch {
			case symbols[k.Symbol]:
				return nil, fmt.Errorf("%s: kernel %s is there twice", f.Name, k.Symbol)
			case !byName[k.Params]:
				return nil, fmt.Errorf("%s: kernel %s: there is no struct %q", f.Name, k.Symbol, k.Params)
			case k.Hot != (k.Registers > 0):
				return nil, fmt.Errorf("%s: kernel %s: hot kernels have a register limit, others have none", f.Name, k.Symbol)
			}
			symbols[k.Symbol] = true
			m.kernels = append(m.kernels, k)
		}
	}
	h := sha256.New()
	for _, s := range m.structs {
		fmt.Fprintln(h, s.Name, s.size)
		for _, f := range s.fields {
			fmt.Fprintln(h, f.Type, f.Name, f.offset, f.Count)
		}
	}
	for _, k := range m.kernels {
		fmt.Fprintln(h, k.Symbol, k.Params, k.Shared, k.Only)
	}
	m.hash = hex.EncodeToString(h.Sum(nil))[:16]
	return m, nil
}

func place1(s Struct) (layout, error) {
	l := layout{Struct: s}
	align := 4
	for _, f := range s.Fields {
		p := place{Field: f, goName: camel(f.Name), goType: "cudart.Ptr", offset: l.size, bytes: 8}
		if !strings.HasSuffix(f.Type, "*") {
			c, ok := scalars[f.Type]
			if !ok {
				return l, fmt.Errorf("field %s: type %q is not a pointer, int32_t, uint32_t, int64_t, uint64_t or float", f.Name, f.Type)
			}
			p.goType, p.bytes = c.goType, c.size
		}
		if l.size%p.bytes != 0 {
			return l, fmt.Errorf("field %s would leave a gap at byte %d: move it or add padding", f.Name, l.size)
		}
		align = max(align, p.bytes)
		if f.Count > 1 {
			p.goType = fmt.Sprintf("[%d]%s", f.Count, p.goType)
			p.bytes *= f.Count
		}
		l.size += p.bytes
		l.fields = append(l.fields, p)
	}
	if l.size%align != 0 {
		l.fields = append(l.fields, place{Field: Field{Type: "int32_t", Name: "padding"}, goName: "_", goType: "int32", offset: l.size, bytes: 4})
		l.size += 4
	}
	if l.size > 4096 {
		return l, fmt.Errorf("%d bytes are more than a kernel's parameters may take", l.size)
	}
	return l, nil
}

// camel turns snake_case into CamelCase.
func camel(s string) string {
	out, up := []rune{}, true
	for _, r := range s {
		if r == '_' {
			up = true
			continue
		}
		if up {
			r, up = unicode.ToUpper(r), false
		}
		out = append(out, r)
	}
	return string(out)
}
