package jinja_test

import (
	"errors"
	"sort"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/minfer-go/minfer/engine/chat/jinja"
)

// Each of these once took seconds to hours in a loop: work on long strings that was not charged to the run. Steps are counted, not time:
// one use costs steps in proportion to the bytes that it looks at, at least one for 64, before it looks at them.
func TestLongStringsAreCharged(t *testing.T) {
	const strs = `{% set s = 'a' * N %}{% set t = 'a' * N %}`
	for name, c := range map[string]struct{ setup, use string }{
		"strip a large set":     {`{% set s = 'a' * N %}{% set t = 'b' * N ~ 'a' %}`, `{% set x = s.strip(t) %}`},
		"isalpha":               {strs, `{% if s.isalpha() %}{% endif %}`},
		"isalnum":               {strs, `{% if s.isalnum() %}{% endif %}`},
		"upper":                 {strs, `{% if s is upper %}{% endif %}`},
		"lower":                 {strs, `{% if s is lower %}{% endif %}`},
		"long attribute":        {strs, `{% if x|attr(s) is defined %}{% endif %}`},
		"long item":             {strs, `{% if s[t] is defined %}{% endif %}`},
		"removeprefix":          {strs, `{% if s.removeprefix(t) %}{% endif %}`},
		"removesuffix, literal": {`{% set s = (user ~ 'x') * N %}`, `{% if s.removesuffix('x') %}{% endif %}`},
		"strftime":              {strs, `{% if strftime_now(s) %}{% endif %}`},
		"format":                {`{% set s = '{' ~ '0' * N ~ '}' %}`, `{% if s.format(1) %}{% endif %}`},
	} {
		t.Run(name, func(t *testing.T) {
			render := func(source string, n, steps int) error {
				tmpl, err := jinja.Parse(strings.ReplaceAll(source, "N", strconv.Itoa(n)), jinja.Limits{})
				require.NoError(t, err)
				_, err = tmpl.Render(map[string]jinja.Value{"user": jinja.Literal("u")}, jinja.Limits{Steps: int64(steps)})
				return err
			}
			const short, long, few = 20, 50_000, 200
			require.NotErrorIs(t, render(c.setup+c.use, short, few), jinja.ErrLimit)
			setup := 1 + sort.Search(10*long, func(steps int) bool { return render(c.setup, long, 1+steps) == nil })
			require.ErrorIs(t, render(c.setup+c.use, long, setup+long/64), jinja.ErrLimit)
			if err := render(c.setup+c.use, long, setup+100*long); err != nil {
				require.False(t, errors.Is(err, jinja.ErrLimit), "charged out of all proportion: %v", err)
			}
		})
	}
	_, err := jinja.Parse(`{% if `+strings.Repeat("n", 200_000)+` is defined %}{% endif %}`, jinja.Limits{})
	require.ErrorIs(t, err, jinja.ErrLimit, "a long name is refused at once")
}
