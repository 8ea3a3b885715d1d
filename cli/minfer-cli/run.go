package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"runtime/debug"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/minfer-go/minfer/engine"
	"github.com/minfer-go/minfer/engine/chat"
	"github.com/minfer-go/minfer/engine/sample"
	"github.com/minfer-go/minfer/graph"
)

type runCmd struct {
	engineFlags
	Prompt []string `arg:"" optional:"" help:"The prompt; without it and without -f it is read from standard input."`
	File   string   `short:"f" placeholder:"FILE" help:"Read the prompt from a file."`
	Raw    bool     `help:"Feed the prompt as it is, without the chat template; special tokens in it are recognised."`
	System string   `placeholder:"TEXT" help:"System message."`

	Ctx     int      `short:"c" placeholder:"N" help:"Context size in tokens; default: the smaller of the model's and 4096."`
	Predict int      `short:"n" default:"-1" placeholder:"N" help:"Tokens to generate at most; -1: until the model ends."`
	Stop    []string `placeholder:"TEXT" sep:"none" help:"End the answer at this text; may be given several times."`

	samplingFlags
	Template  string `placeholder:"FILE" help:"Chat template (Jinja) to use instead of the model's."`
	NoThink   bool   `name:"no-think" help:"Render the template with enable_thinking false (Qwen3)."`
	DumpGraph string `name:"dump-graph" placeholder:"FILE" help:"Write the graph of a decode step as DOT and go on."`
	JSON      bool   `name:"json" help:"Print one JSON object with the answer and figures when done."`
	Verbose   bool   `short:"v" help:"Print figures and the path in use on standard error."`
}

// Help shows examples.
func (runCmd) Help() string {
	return `Examples:
  minfer-cli run "Tell me a story about a brave mouse and a lamp."
  minfer-cli run -m qwen2.5-0.5b-instruct-q4_k_m.gguf --greedy "What is the capital of France?"
  cat question.txt | minfer-cli run -m model.gguf -n 200 -v
  minfer-cli run -m model.gguf --profile "Why is the sky blue?"`
}

// samplingFlags override the model's defaults; a nil pointer keeps them.
type samplingFlags struct {
	Greedy        bool     `help:"Always take the most probable token."`
	Temp          *float64 `placeholder:"T" help:"Temperature; 0 is greedy."`
	TopK          *int     `name:"top-k" placeholder:"K" help:"Keep the K most probable tokens; 0: all."`
	TopP          *float64 `name:"top-p" placeholder:"P" help:"Keep the most probable tokens that make up P."`
	MinP          *float64 `name:"min-p" placeholder:"P" help:"Keep tokens of at least P times the best one's probability."`
	TypicalP      *float64 `name:"typical-p" placeholder:"P" help:"Locally typical sampling; 1: off."`
	RepeatPenalty *float64 `name:"repeat-penalty" placeholder:"X" help:"Divide the logits of seen tokens; 1: off."`
	RepeatLastN   *int     `name:"repeat-last-n" placeholder:"N" help:"Tokens that penalties look back on; -1: all."`
	Frequency     *float64 `name:"frequency-penalty" placeholder:"X" help:"Taken off a logit for each time the token was seen."`
	Presence      *float64 `name:"presence-penalty" placeholder:"X" help:"Taken off a logit once if the token was seen."`
	LogitBias     []string `name:"logit-bias" placeholder:"ID=X" help:"Add X to a token's logit; may be given several times."`
	Seed          *uint64  `placeholder:"N" help:"Seed; default: a random one."`
}

func set[T any](to *T, from *T) {
	if from != nil {
		*to = *from
	}
}

func (f samplingFlags) apply(p sample.Params) (sample.Params, error) {
	set(&p.Temperature, f.Temp)
	set(&p.TopK, f.TopK)
	set(&p.TopP, f.TopP)
	set(&p.MinP, f.MinP)
	set(&p.TypicalP, f.TypicalP)
	set(&p.RepeatPenalty, f.RepeatPenalty)
	set(&p.RepeatLastN, f.RepeatLastN)
	set(&p.FrequencyPenalty, f.Frequency)
	set(&p.PresencePenalty, f.Presence)
	p.Seed = rand.Uint64()
	set(&p.Seed, f.Seed)
	if f.Greedy {
		p.Temperature = 0
	}
	for _, s := range f.LogitBias {
		name, add, _ := strings.Cut(s, "=")
		id, err := strconv.ParseInt(strings.TrimSpace(name), 10, 32)
		x, xerr := strconv.ParseFloat(strings.TrimSpace(add), 64)
		if err != nil || xerr != nil {
			return p, usage("--logit-bias %q: want ID=X, as in 42=-1.5", s)
		}
		if p.LogitBias == nil {
			p.LogitBias = map[int32]float64{}
		}
		p.LogitBias[int32(id)] = x
	}
	if err := p.Validate(); err != nil {
		return p, usageError{err}
	}
	return p, nil
}

// prompt of the user; the last newline of a file or of standard input isn't part of it.
func (c *runCmd) prompt(a *app) (string, error) {
	if len(c.Prompt) == 0 && c.File == "" && isTerminal(a.stdin) {
		return "", usage("no prompt: give it as an argument, with -f FILE, or on standard input")
	}
	text, err := a.text(c.Prompt, c.File)
	if err != nil {
		return "", err
	}
	if len(c.Prompt) == 0 {
		text = strings.TrimSuffix(strings.TrimSuffix(text, "\n"), "\r")
	}
	if strings.TrimSpace(text) == "" {
		return "", usage("the prompt is empty")
	}
	return text, nil
}

// Run answers the prompt.
func (c *runCmd) Run(a *app) error {
	start := time.Now()
	if c.Predict == 0 || c.Predict < -1 {
		return usage("-n %d: want 1 or more, or -1 for no limit", c.Predict)
	}
	text, err := c.prompt(a)
	if err != nil {
		return err
	}
	key, value, err := c.formats()
	if err != nil {
		return err
	}
	template, err := readTemplate(c.Template)
	if err != nil {
		return err
	}
	gc := debug.SetGCPercent(-1) // loading makes little garbage; marking what it keeps would take a third of its time
	m, chosen, err := c.loadFor(a, template, c.Ctx)
	if err != nil {
		return err
	}
	defer m.Close()
	params, err := c.samplingFlags.apply(m.SampleDefaults())
	if err != nil {
		return err
	}
	ids, err := c.ids(m, text)
	if err != nil {
		return err
	}
	ctx, err := m.NewContext(engine.ContextOptions{Ctx: c.Ctx, KeyType: key, ValueType: value})
	if err != nil {
		return err
	}
	defer ctx.Close()
	trace := startTrace(ctx)
	if c.DumpGraph != "" {
		if err := c.dump(ctx); err != nil {
			return err
		}
	}
	debug.SetGCPercent(gc)
	loaded := time.Since(start)
	var first time.Duration
	emit := func(s string) error {
		if first == 0 {
			first = time.Since(start)
		}
		if c.JSON {
			return nil
		}
		_, err := io.WriteString(a.stdout, s)
		return err
	}
	res, err := ctx.Generate(a.ctx, 0, ids, engine.GenerateOptions{Sample: params, MaxTokens: c.Predict, Stop: c.Stop, KeepSpecial: c.Raw}, emit)
	if !c.JSON && res.Text != "" && !strings.HasSuffix(res.Text, "\n") {
		fmt.Fprintln(a.stdout)
	}
	f := c.figures(m, ctx, res, loaded, first, params.Seed)
	f.Backend, f.NoGPU = m.Describe(), chosen.reason
	times, perr := profileOf(m)
	f.Profile, err = times, errors.Join(err, perr)
	if c.JSON {
		if err != nil {
			f.Error = err.Error()
		}
		enc := json.NewEncoder(a.stdout)
		enc.SetEscapeHTML(false)
		err = errors.Join(err, enc.Encode(f))
	}
	if c.Verbose {
		fmt.Fprintln(a.stderr, f.lines())
		err = errors.Join(err, chosen.memory.look())
		chosen.memory.print(a.stderr)
	}
	return errors.Join(err, chosen.counts(a.stderr, ctx), times.print(a.stderr, res.PromptTime+res.DecodeTime), trace.write())
}

func (c *runCmd) ids(m *engine.Model, text string) ([]int32, error) {
	if c.Raw {
		if c.System != "" {
			return nil, usage("--system has no place in a --raw prompt")
		}
		return m.RawPrompt(text, true), nil
	}
	ids, _, err := m.ChatPrompt(chatInput(c.System, text, c.NoThink))
	return ids, err
}

func chatInput(system, user string, noThink bool) chat.Input {
	var turns []string
	if system != "" {
		turns = append(turns, "system", system)
	}
	in := chat.Input{Messages: chat.Messages(append(turns, "user", user)...), AddGenerationPrompt: true}
	if noThink {
		in.EnableThinking = new(bool)
	}
	return in
}

func (c *runCmd) dump(ctx *engine.Context) error {
	o := ctx.Options()
	p := graph.Params{Rows: 1, Outputs: 1, Seqs: o.Seqs, Runs: o.Seqs, Cells: o.Ctx * o.Seqs, KeyType: o.KeyType.Type(), ValueType: o.ValueType.Type()}
	compiled, err := ctx.Executor().Compile(p, ctx.Model().Net().Build)
	if err != nil {
		return err
	}
	g, assignment := compiled.Graph()
	f, err := os.Create(c.DumpGraph)
	if err != nil {
		return fmt.Errorf("--dump-graph: %w", err)
	}
	if err := graph.WriteDOT(f, g, assignment, []graph.Backend{ctx.Model().Backend()}); err != nil {
		f.Close()
		return fmt.Errorf("--dump-graph: %w", err)
	}
	return f.Close()
}

// figures of one answer.
type figures struct {
	Model        string   `json:"model"`
	Text         string   `json:"text"`
	Tokens       []int32  `json:"tokens"`
	StopReason   string   `json:"stop_reason"`
	PromptTokens int      `json:"prompt_tokens"`
	LoadMS       float64  `json:"load_ms"`
	FirstTextMS  float64  `json:"first_text_ms"` // from the start of the command
	PromptTokS   float64  `json:"prompt_tokens_per_second"`
	DecodeTokS   float64  `json:"decode_tokens_per_second"`
	Backend      string   `json:"backend"`
	NoGPU        string   `json:"no_gpu,omitempty"` // why auto took the CPU
	KV           string   `json:"kv"`
	Ctx          int      `json:"ctx"`
	Seed         uint64   `json:"seed"`
	Profile      *profile `json:"profile,omitempty"`
	Error        string   `json:"error,omitempty"` // why the answer ended early; the exit status is 1 then
}

func (c *runCmd) figures(m *engine.Model, ctx *engine.Context, r engine.Result, loaded, first time.Duration, seed uint64) figures {
	ms := func(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
	rate := func(n int, d time.Duration) float64 {
		if n <= 0 || d <= 0 {
			return 0
		}
		return float64(n) / d.Seconds()
	}
	o := ctx.Options()
	return figures{Model: m.Path(), Text: r.Text, Tokens: append([]int32{}, r.Tokens...), StopReason: string(r.Reason), PromptTokens: r.PromptTokens, LoadMS: ms(loaded), FirstTextMS: ms(first),
		PromptTokS: rate(r.PromptTokens, r.PromptTime), DecodeTokS: rate(len(r.Tokens)-1, r.DecodeTime),
		KV: o.KeyType.String() + "/" + o.ValueType.String(), Ctx: o.Ctx, Seed: seed}
}

// lines are the figures for people, and why there was no GPU.
func (f figures) lines() string {
	s := fmt.Sprintf("%s; KV %s, %d cells; load %.0f ms, first text after %.0f ms; prompt %d tokens at %.1f/s; %d tokens at %.1f/s; stopped by %s; seed %d",
		f.Backend, f.KV, f.Ctx, f.LoadMS, f.FirstTextMS, f.PromptTokens, f.PromptTokS, len(f.Tokens), f.DecodeTokS, f.StopReason, f.Seed)
	if f.NoGPU != "" {
		s += "\n" + wrap("no GPU: "+f.NoGPU, lineWidth)
	}
	return s
}

// lineWidth is that of messages.
const lineWidth = 100

// wrap breaks text between words, so that lines have width characters at most if the words allow it; all but the first are indented.
func wrap(text string, width int) string {
	var b strings.Builder
	at := 0
	for _, word := range strings.Fields(text) {
		n := utf8.RuneCountInString(word)
		switch {
		case at == 0:
		case at+1+n > width:
			b.WriteString("\n  ")
			at = 2
		default:
			b.WriteString(" ")
			at++
		}
		b.WriteString(word)
		at += n
	}
	return b.String()
}
