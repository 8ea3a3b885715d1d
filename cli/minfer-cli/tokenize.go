package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
)

type tokenizeCmd struct {
	modelFlag
	Text    []string `arg:"" optional:"" help:"Text, or ids with --decode; without it and -f, standard input."`
	File    string   `short:"f" placeholder:"FILE" help:"Read the text from a file."`
	Special bool     `help:"Recognise special tokens in the text."`
	Decode  bool     `help:"The other way: ids, separated by commas or spaces, to text."`
	JSON    bool     `name:"json" help:"Print JSON."`
}

// Help shows examples.
func (tokenizeCmd) Help() string {
	return "Examples:\n  minfer-cli tokenize \"Hello world\"\n  minfer-cli tokenize --special --json -f prompt.txt\n  minfer-cli tokenize --decode 424,418,256"
}

// Run prints ids, or text.
func (c *tokenizeCmd) Run(a *app) error {
	text, err := a.text(c.Text, c.File)
	if err != nil {
		return err
	}
	f, tok, err := c.vocabulary(a)
	if err != nil {
		return err
	}
	defer f.Close()
	if c.Decode {
		ids, err := parseIDs(text)
		if err != nil {
			return err
		}
		out, err := tok.Decode(ids)
		if err != nil {
			return err
		}
		if c.JSON {
			return json.NewEncoder(a.stdout).Encode(map[string]any{"ids": ids, "text": out})
		}
		_, err = io.WriteString(a.stdout, out)
		return err
	}
	ids := tok.Encode(text, c.Special)
	if c.JSON {
		pieces := make([]string, len(ids))
		for i, id := range ids {
			pieces[i] = string(tok.TokenBytes(id))
		}
		if ids == nil {
			ids = []int32{} // JSON's [], not null
		}
		enc := json.NewEncoder(a.stdout)
		enc.SetEscapeHTML(false)
		return enc.Encode(map[string]any{"ids": ids, "pieces": pieces, "count": len(ids)})
	}
	var b strings.Builder
	for i, id := range ids {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(strconv.Itoa(int(id)))
	}
	_, err = fmt.Fprintln(a.stdout, b.String())
	return err
}

// parseIDs reads token ids separated by commas or white space.
func parseIDs(text string) ([]int32, error) {
	fields := strings.FieldsFunc(text, func(r rune) bool {
		return r == ',' || r == ' ' || r == '\n' || r == '\t' || r == '\r' || r == '[' || r == ']'
	})
	ids := make([]int32, 0, len(fields))
	for _, s := range fields {
		id, err := strconv.ParseInt(s, 10, 32)
		if err != nil || id < 0 {
			return nil, usage("%q is not a token id", s)
		}
		ids = append(ids, int32(id))
	}
	return ids, nil
}
