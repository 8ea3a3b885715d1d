// Package chat renders conversations with the Jinja chat templates of model files, within limits: a template comes from a stranger.
package chat

import (
	"errors"
	"fmt"

	"github.com/minfer-go/minfer/engine/chat/jinja"
)

// ErrTemplate is wrapped by errors about a template that can't be used.
var ErrTemplate = errors.New("chat template")

// ChatML is the template used for models that bring none.
const ChatML = "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>' + '\\n' }}{% endfor %}" +
	"{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"

// Options of a template.
type Options struct {
	BOS, EOS string // text of the tokens, for the variables bos_token and eos_token
}

// Template is a compiled chat template, safe for concurrent use.
type Template struct {
	t *jinja.Template
	o Options
}

// Compile parses a template and tries it on small conversations. What it uses and can't be rendered (an unknown tag, filter, test or
// method) is refused with its name; a template that refuses some conversations by itself is fine.
func Compile(source string, o Options) (*Template, error) {
	p, err := jinja.Parse(source, jinja.Limits{})
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrTemplate, err)
	}
	t := &Template{p, o}
	var last error
	rendered := false
	for _, in := range probes() {
		if _, err := t.Render(in); err == nil {
			rendered = true
		} else if last = err; errors.Is(err, jinja.ErrUnsupported) || errors.Is(err, jinja.ErrLimit) || errors.Is(err, jinja.ErrInternal) {
			return nil, err
		}
	}
	if !rendered {
		return nil, fmt.Errorf("it renders none of the plain conversations it was tried on: %w", last)
	}
	return t, nil
}

// probes are the conversations that Compile tries.
func probes() []Input {
	off := false
	return []Input{
		{Messages: Messages("user", "Hi"), AddGenerationPrompt: true},
		{Messages: Messages("system", "Be brief.", "user", "Hi", "assistant", "Hello.", "user", "Bye")},
		{Messages: Messages("user", "Hi"), AddGenerationPrompt: true, EnableThinking: &off},
	}
}

// Input is a conversation to render.
type Input struct {
	Messages            Value  // a list of objects with role, content, …
	Tools               *Value // a list of tool descriptions; nil: not defined
	AddGenerationPrompt bool
	EnableThinking      *bool // nil: not defined
}

// Segment is a piece of rendered text. Literal text came from the conversation: special tokens must not be recognised in it.
type Segment struct {
	Text    string
	Literal bool
}

// Render gives the text of a conversation.
func (t *Template) Render(in Input) (string, error) {
	s, err := t.render(in)
	return s.String(), err
}

// Segments is Render, in pieces of template text and of the conversation's text.
func (t *Template) Segments(in Input) ([]Segment, error) {
	s, err := t.render(in)
	if err != nil {
		return nil, err
	}
	var out []Segment
	s.Runs(func(text string, literal bool) { out = append(out, Segment{text, literal}) })
	return out, nil
}

func (t *Template) render(in Input) (jinja.Str, error) {
	vars := map[string]jinja.Value{
		"messages": in.Messages.v, "add_generation_prompt": jinja.Bool(in.AddGenerationPrompt),
		"tools": jinja.None{}, "documents": jinja.None{},
	}
	for name, text := range map[string]string{"bos_token": t.o.BOS, "eos_token": t.o.EOS} {
		if text != "" { // not defined without such a token
			vars[name] = jinja.Text(text)
		}
	}
	if in.Messages.v == nil {
		vars["messages"] = jinja.NewList()
	}
	if in.Tools != nil {
		vars["tools"] = in.Tools.v
	}
	if in.EnableThinking != nil {
		vars["enable_thinking"] = jinja.Bool(*in.EnableThinking)
	}
	s, err := t.t.Render(vars, jinja.Limits{})
	if err != nil {
		return jinja.Str{}, fmt.Errorf("%w: %w", ErrTemplate, err)
	}
	return s, nil
}
