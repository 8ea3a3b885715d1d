package chat

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/minfer-go/minfer/engine/chat/jinja"
)

// Value is a JSON value that keeps the order of keys and the kind of numbers, which templates show.
type Value struct{ v jinja.Value }

// maxJSONDepth bounds the nesting of conversations.
const maxJSONDepth = 200

// Messages makes a conversation of pairs: role, content, role, content, …
func Messages(rolesAndContents ...string) Value {
	var items []jinja.Value
	for i := 0; i+1 < len(rolesAndContents); i += 2 {
		d := jinja.NewDict()
		d.Set(jinja.Text("role"), role(rolesAndContents[i]))
		d.Set(jinja.Text("content"), jinja.Literal(rolesAndContents[i+1]))
		items = append(items, d)
	}
	return Value{jinja.NewList(items...)}
}

// role is a role's name. Templates build control tokens of the well-known ones ("<|" + role + "|>"), so these count as template text; no
// other text of a conversation does.
func role(name string) jinja.Value {
	switch name {
	case "system", "user", "assistant", "tool", "developer":
		return jinja.Text(name)
	}
	return jinja.Literal(name)
}

// UnmarshalJSON keeps what encoding/json would lose. A key that occurs again gets its last value, as in Python.
func (v *Value) UnmarshalJSON(data []byte) error {
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	x, err := decode(d, 0)
	if err != nil {
		return err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return fmt.Errorf("chat: JSON: something follows the value")
	}
	v.v = x
	return nil
}

func decode(d *json.Decoder, depth int) (jinja.Value, error) {
	if depth > maxJSONDepth {
		return nil, fmt.Errorf("chat: JSON: nested deeper than %d", maxJSONDepth)
	}
	t, err := d.Token()
	if err != nil {
		return nil, err
	}
	switch x := t.(type) {
	case nil:
		return jinja.None{}, nil
	case bool:
		return jinja.Bool(x), nil
	case string:
		return jinja.Literal(x), nil
	case json.Number:
		return number(string(x))
	case json.Delim:
		if x == '[' {
			var items []jinja.Value
			for d.More() {
				e, err := decode(d, depth+1)
				if err != nil {
					return nil, err
				}
				items = append(items, e)
			}
			_, err := d.Token()
			return jinja.NewList(items...), err
		}
		dict := jinja.NewDict()
		for d.More() {
			k, err := d.Token()
			if err != nil {
				return nil, err
			}
			e, err := decode(d, depth+1)
			if err != nil {
				return nil, err
			}
			if s, ok := e.(jinja.Str); ok && k == "role" {
				e = role(s.String())
			}
			dict.Set(jinja.Literal(k.(string)), e)
		}
		_, err := d.Token()
		return dict, err
	}
	return nil, fmt.Errorf("chat: JSON: unexpected %v", t)
}

// number follows Python: a number with a point or an exponent is a float, any other an integer of any size.
func number(s string) (jinja.Value, error) {
	if strings.ContainsAny(s, ".eE") {
		f, err := strconv.ParseFloat(s, 64)
		if err != nil && !errors.Is(err, strconv.ErrRange) {
			return nil, err
		}
		return jinja.Float(f), nil
	}
	if n, err := strconv.ParseInt(s, 10, 64); err == nil {
		return jinja.Int(n), nil
	}
	return jinja.Big(s), nil
}

// ParseInput reads the JSON object that describes a conversation: messages and, optionally, tools, add_generation_prompt and
// enable_thinking.
func ParseInput(data []byte) (Input, error) {
	var raw struct {
		Messages            *Value `json:"messages"`
		Tools               *Value `json:"tools"`
		AddGenerationPrompt bool   `json:"add_generation_prompt"`
		EnableThinking      *bool  `json:"enable_thinking"`
	}
	if err := json.Unmarshal(data, &raw); err != nil {
		return Input{}, fmt.Errorf("chat: conversation: %w", err)
	}
	if raw.Messages == nil {
		return Input{}, fmt.Errorf("chat: conversation: no messages")
	}
	if _, ok := raw.Messages.v.(*jinja.List); !ok {
		return Input{}, fmt.Errorf("chat: conversation: messages is not a list")
	}
	return Input{Messages: *raw.Messages, Tools: raw.Tools, AddGenerationPrompt: raw.AddGenerationPrompt, EnableThinking: raw.EnableThinking}, nil
}
