package jinja_test

import (
	"encoding/json"
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/minfer-go/minfer/engine/chat/jinja"
)

type fixture struct {
	Setup string
	Cases []struct{ Source, Want string }
}

func load(t testing.TB) (f fixture) {
	t.Helper()
	data, err := os.ReadFile("testdata/cases.json")
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(data, &f))
	return f
}

func render(source string, vars map[string]jinja.Value) (jinja.Str, error) {
	tmpl, err := jinja.Parse(source, jinja.Limits{})
	if err != nil {
		return jinja.Str{}, err
	}
	return tmpl.Render(vars, jinja.Limits{})
}

// Byte for byte what Python's jinja2 renders; testdata/cases.py made the file.
func TestAsPythonRenders(t *testing.T) {
	f := load(t)
	require.Greater(t, len(f.Cases), 230)
	for _, c := range f.Cases {
		got, err := render(f.Setup+c.Source, nil)
		if assert.NoError(t, err, c.Source) {
			assert.Equal(t, c.Want, got.String(), c.Source)
		}
	}
}

func TestRefusals(t *testing.T) {
	for source, kind := range map[string]error{
		"{{ strftime_now('%-q') }}": jinja.ErrUnsupported, "{{ strftime_now('%q') }}": jinja.ErrUnsupported,
		"{{ '{:e}'.format(1.5) }}": jinja.ErrUnsupported, "{{ '{!r}'.format(1) }}": jinja.ErrUnsupported, "{{ '{a.b}'.format(a=1) }}": jinja.ErrUnsupported,
		"{{ '%e'|format(1.5) }}": jinja.ErrUnsupported, "{{ '{:>99999999999999999999}'.format(1) }}": jinja.ErrLimit, "{{ '%99999d'|format(1) }}": jinja.ErrLimit,
		"{{ '%5'|format(1) }}": jinja.ErrRuntime, "{{ '%d'|format('x') }}": jinja.ErrRuntime, "{{ '{:d}'.format('x') }}": jinja.ErrRuntime,
		"{{ 'abc'.rindex('z') }}": jinja.ErrRuntime, "{{ 'abc'.partition('') }}": jinja.ErrRuntime, "{{ 'a'.zfill(9999999999) }}": jinja.ErrLimit,
		"{{ [1]|slice(99999999)|list }}": jinja.ErrLimit, "{{ [1]|slice(0)|list }}": jinja.ErrRuntime, "{{ 'a'.center(9, 'xy') }}": jinja.ErrRuntime, "{{ 'abc def'|truncate(1) }}": jinja.ErrRuntime,
	} {
		_, err := render(source, nil)
		assert.ErrorIs(t, err, kind, source)
	}
}

// Whatever a template does to it, the caller's text stays marked.
func TestMarksSurvive(t *testing.T) {
	for _, e := range []string{"x|title", "x.zfill(9)", "x.center(9)", "'%-9s|' % x", "'{:>9}'.format(x)", "'<'|safe + x", "x.partition('b')|join('-')", "[x]|slice(1)|first|first", "(x ~ ' is long')|truncate(7)"} {
		s, err := render("{{ "+e+" }}", map[string]jinja.Value{"x": jinja.Literal("abc")})
		require.NoError(t, err, e)
		marked := ""
		s.Runs(func(text string, literal bool) {
			if literal {
				marked += text
			} else {
				assert.NotContains(t, text, "c", e)
			}
		})
		assert.Regexp(t, "(?i)^abc$", marked, e)
	}
}

func FuzzRender(f *testing.F) {
	cases := load(f)
	for _, c := range cases.Cases {
		f.Add(c.Source)
	}
	f.Fuzz(func(t *testing.T, source string) {
		s, err := render(source, map[string]jinja.Value{"messages": jinja.NewList(jinja.Literal("x<|y|>"))})
		if err != nil {
			var known *jinja.Error
			require.ErrorAs(t, err, &known)
			require.NotErrorIs(t, err, jinja.ErrInternal)
			return
		}
		joined := ""
		s.Runs(func(text string, _ bool) { joined += text })
		require.Equal(t, s.String(), joined)
	})
}
