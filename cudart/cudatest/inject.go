package cudatest

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/minfer-go/minfer/cudart/sys"
)

// Inject makes calls of the driver fail by rule and counts all calls. Safe for goroutines.
type Inject struct {
	mu     sync.Mutex
	rules  []rule
	counts map[string]int
	fired  []string
}

type rule struct {
	name   string
	nth    int
	onward bool // every call from the nth on
	result sys.Result
}

// CallNames lists the names of the driver's functions, as in sys.Table, sorted.
func CallNames() []string {
	t := reflect.TypeFor[sys.Table]()
	names := make([]string, t.NumField())
	for i := range names {
		names[i] = t.Field(i).Name
	}
	slices.Sort(names)
	return names
}

// ParseInject reads rules "NAME:N=RESULT" with commas between them: the N-th call of NAME (counted from 1) fails with
// RESULT, and with "N+" every one from then on. NAME is a field of sys.Table and RESULT a CUDA error without its
// CUDA_ERROR_, both in any case: "MemAlloc:3=OUT_OF_MEMORY,Launch:10+=ILLEGAL_ADDRESS". An empty string has no rules.
func ParseInject(s string) (*Inject, error) {
	in := &Inject{counts: map[string]int{}}
	for text := range strings.SplitSeq(s, ",") {
		if text = strings.TrimSpace(text); text == "" {
			continue
		}
		r, err := parseRule(text)
		if err != nil {
			return nil, fmt.Errorf("cudatest: fault rule %q: %w", text, err)
		}
		in.rules = append(in.rules, r)
	}
	return in, nil
}

func parseRule(text string) (rule, error) {
	call, result, ok := strings.Cut(text, "=")
	name, nth, ok2 := strings.Cut(call, ":")
	if !ok || !ok2 {
		return rule{}, fmt.Errorf("want NAME:N=RESULT, as in MemAlloc:3=OUT_OF_MEMORY")
	}
	var r rule
	for _, known := range CallNames() {
		if strings.EqualFold(known, name) {
			r.name = known
		}
	}
	if r.name == "" {
		return rule{}, fmt.Errorf("no call is named %q; there are %s", name, strings.Join(CallNames(), ", "))
	}
	nth, r.onward = strings.CutSuffix(nth, "+")
	n, err := strconv.Atoi(nth)
	if err != nil || n < 1 {
		return rule{}, fmt.Errorf("%q is no number of a call; want 1, 2, … or 3+ for the third and all later ones", nth)
	}
	r.nth = n
	if r.result, ok = sys.ResultByName(result); !ok {
		return rule{}, fmt.Errorf("no result is named %q; there are %s", result, strings.Join(sys.ResultNames(), ", "))
	}
	return r, nil
}

// Wrap gives a table whose calls are counted and fail by the rules; the others go to t.
func (in *Inject) Wrap(t *sys.Table) *sys.Table { return sys.Intercept(t, in.before) }

func (in *Inject) before(name string) sys.Result {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.counts[name]++
	n := in.counts[name]
	for _, r := range in.rules {
		if r.name == name && (n == r.nth || r.onward && n > r.nth) {
			in.fired = append(in.fired, fmt.Sprintf("%s:%d=%s", name, n, strings.TrimPrefix(r.result.String(), "CUDA_ERROR_")))
			return r.result
		}
	}
	return sys.Success
}

// Counts gives the calls so far by name, failed ones too.
func (in *Inject) Counts() map[string]int {
	in.mu.Lock()
	defer in.mu.Unlock()
	return maps.Clone(in.counts)
}

// Fired lists the failures so far, each as a rule.
func (in *Inject) Fired() []string {
	in.mu.Lock()
	defer in.mu.Unlock()
	return slices.Clone(in.fired)
}
