package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/minfer-go/minfer/engine"
	"github.com/minfer-go/minfer/engine/chat"
	"github.com/minfer-go/minfer/engine/tokenizer"
)

type templateCmd struct {
	modelFlag
	Template string `placeholder:"FILE" help:"Template file (Jinja) instead of the model's."`
	JSON     bool   `name:"json" help:"Print a JSON object with the text and its token ids."`
	Messages string `arg:"" help:"JSON file (- for standard input): an object with messages and, optionally, tools, add_generation_prompt, enable_thinking."`
}

// Help shows examples.
func (templateCmd) Help() string {
	return "Examples:\n  minfer-cli template messages.json\n  minfer-cli template --template qwen3.jinja messages.json\n\nmessages.json: {\"messages\":[{\"role\":\"user\",\"content\":\"Hello\"}],\"add_generation_prompt\":true}"
}

// Run prints the rendered text and nothing else. It needs a vocabulary and no tensors.
func (c *templateCmd) Run(a *app) error {
	in, err := c.input(a)
	if err != nil {
		return err
	}
	source, err := readTemplate(c.Template)
	if err != nil {
		return err
	}
	f, tok, err := c.vocabulary(a)
	if err != nil {
		return err
	}
	defer f.Close()
	t, err := engine.CompileTemplate(f, tok, source, a.notice)
	if err != nil {
		return err
	}
	segments, err := t.Segments(in)
	if err != nil {
		return err
	}
	var text strings.Builder
	parts := make([]tokenizer.Part, len(segments))
	for i, s := range segments {
		text.WriteString(s.Text)
		parts[i] = tokenizer.Part{Text: s.Text, Special: !s.Literal}
	}
	if c.JSON {
		enc := json.NewEncoder(a.stdout)
		enc.SetEscapeHTML(false)
		return enc.Encode(map[string]any{"text": text.String(), "tokens": tok.EncodeParts(parts...)})
	}
	_, err = io.WriteString(a.stdout, text.String())
	return err
}

func (c *templateCmd) input(a *app) (chat.Input, error) {
	var text string
	var err error
	if c.Messages == "-" {
		text, err = a.readStdin()
	} else {
		text, err = readFile("MESSAGES.json", c.Messages)
	}
	if err != nil {
		return chat.Input{}, err
	}
	in, err := chat.ParseInput([]byte(text))
	if err != nil {
		return in, fmt.Errorf("%s: %w", c.Messages, err)
	}
	return in, nil
}
