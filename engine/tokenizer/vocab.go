package tokenizer

import (
	"errors"
	"fmt"
	"sort"
	"strings"
)

// Sentinels of this package's errors, for errors.Is.
var (
	// ErrUnsupported: the vocabulary is of a kind that this package can't do.
	ErrUnsupported = errors.New("unsupported tokenizer")
	// ErrCorrupt: the vocabulary contradicts itself.
	ErrCorrupt = errors.New("corrupt vocabulary")
	// ErrToken: a token id lies outside the vocabulary.
	ErrToken = errors.New("no such token")
)

// Token types, as in tokenizer.ggml.token_type.
const (
	TypeNormal      int32 = 1
	TypeUnknown     int32 = 2
	TypeControl     int32 = 3
	TypeUserDefined int32 = 4
	TypeUnused      int32 = 5
	TypeByte        int32 = 6
)

// NoToken stands for a special id that a vocabulary doesn't have.
const NoToken int32 = -1

// Vocab is what a Tokenizer is made from. New keeps its slices: they must not change any more.
type Vocab struct {
	// Tokens by id, in GPT-2's byte alphabet for normal tokens and as plain text for the others.
	Tokens []string
	// Types by id (Type constants). Nil means that all are normal.
	Types []int32
	// Merges in order of preference, each "LEFT RIGHT".
	Merges []string
	// Pre names the pre-tokenizer: see Supported.
	Pre string
	// BOS, EOS and EOT are ids, or NoToken. Mind that 0 is an id.
	BOS, EOS, EOT int32
	// AddBOS says whether a prompt starts with BOS.
	AddBOS bool
}

// Tokenizer encodes and decodes with one vocabulary. It is immutable and safe for concurrent use.
type Tokenizer struct {
	tokens []string
	types  []int32
	next   nextWord
	bytes  [256]int32    // id of each single byte, or NoToken
	pairs  pairTable     // once built is closed
	built  chan struct{} // closed when New's last work, in the background, is done

	added    matcher // control and user-defined tokens
	userOnly matcher // user-defined tokens

	bos, eos int32
	addBOS   bool
	eog      []int32 // ascending
}

// endNames are tokens that end an answer whenever the file has them, whatever its eos_token_id is.
var endNames = []string{"<|im_end|>", "<|endoftext|>"}

// New checks v and builds its tables: some 5 ms for Qwen's 151,936 tokens. The table of merges, some 30 ms more, comes in the background;
// the first call that encodes text waits for it.
//
// Errors wrap ErrUnsupported (v.Pre) or ErrCorrupt (the rest).
func New(v Vocab) (*Tokenizer, error) {
	next, ok := preTokenizers[v.Pre]
	if !ok {
		return nil, errPre(v.Pre)
	}
	if len(v.Tokens) == 0 {
		return nil, fmt.Errorf("tokenizer: no tokens: %w", ErrCorrupt)
	}
	if int64(len(v.Tokens)) > 1<<30 || int64(len(v.Merges)) > 1<<30 {
		return nil, fmt.Errorf("tokenizer: %d tokens, %d merges: at most 2^30 of each: %w", len(v.Tokens), len(v.Merges), ErrUnsupported)
	}
	if v.Types != nil && len(v.Types) != len(v.Tokens) {
		return nil, fmt.Errorf("tokenizer: %d tokens but %d token types: %w", len(v.Tokens), len(v.Types), ErrCorrupt)
	}
	t := &Tokenizer{tokens: v.Tokens, types: v.Types, next: next, bos: v.BOS, eos: v.EOS, addBOS: v.AddBOS}
	for _, s := range []struct {
		name string
		id   int32
	}{{"bos", v.BOS}, {"eos", v.EOS}, {"eot", v.EOT}} {
		if s.id != NoToken && !t.valid(s.id) {
			return nil, fmt.Errorf("tokenizer: %s id %d: the vocabulary has %d tokens: %w", s.name, s.id, len(v.Tokens), ErrCorrupt)
		}
	}
	if v.AddBOS && v.BOS == NoToken {
		return nil, fmt.Errorf("tokenizer: a BOS token is asked for but none is named: %w", ErrCorrupt)
	}
	if err := t.findBytes(); err != nil {
		return nil, err
	}
	if err := checkMerges(v.Merges); err != nil {
		return nil, err
	}
	var err error
	var added, user []int32
	for id, typ := range v.Types {
		switch typ {
		case TypeUserDefined:
			user = append(user, int32(id))
			added = append(added, int32(id))
		case TypeControl:
			added = append(added, int32(id))
		}
	}
	if t.added, err = newMatcher(v.Tokens, added); err != nil {
		return nil, err
	}
	if t.userOnly, err = newMatcher(v.Tokens, user); err != nil {
		return nil, err
	}
	t.findEnds(v.EOT, added)
	t.built = make(chan struct{})
	go func() {
		t.pairs = buildPairs(v.Merges, v.Tokens, t.mergeable)
		close(t.built)
	}()
	return t, nil
}

// Supported lists the pre-tokenizers that New knows, sorted.
func Supported() []string {
	names := make([]string, 0, len(preTokenizers))
	for n := range preTokenizers {
		names = append(names, n)
	}
	sort.Strings(names)
	return names
}

func errPre(name string) error {
	return fmt.Errorf("tokenizer: tokenizer.ggml.pre %.80q: %w; supported: %s", name, ErrUnsupported, strings.Join(Supported(), ", "))
}

// findBytes fills t.bytes: the ids that a word starts as, before any merge.
func (t *Tokenizer) findBytes() error {
	for i := range t.bytes {
		t.bytes[i] = NoToken
	}
	found := 0
	for id, s := range t.tokens {
		if len(s) == 0 || len(s) > 2 || !t.mergeable(int32(id)) {
			continue
		}
		if b, n := alphabetByte(s); n == len(s) && t.bytes[b] == NoToken {
			t.bytes[b] = int32(id)
			found++
		}
	}
	if found == 0 {
		return fmt.Errorf("tokenizer: none of the 256 single bytes is a token: not a byte-level vocabulary: %w", ErrCorrupt)
	}
	return nil
}

func (t *Tokenizer) findEnds(eot int32, added []int32) {
	ends := map[int32]bool{}
	for _, id := range []int32{t.eos, eot} {
		if id != NoToken {
			ends[id] = true
		}
	}
	for _, id := range added {
		for _, name := range endNames {
			if t.tokens[id] == name {
				ends[id] = true
			}
		}
	}
	for id := range ends {
		t.eog = append(t.eog, id)
	}
	sort.Slice(t.eog, func(i, j int) bool { return t.eog[i] < t.eog[j] })
}

// mergeable says whether plain text may become this token.
func (t *Tokenizer) mergeable(id int32) bool {
	typ := t.Type(id)
	return typ != TypeControl && typ != TypeUnused
}

func (t *Tokenizer) valid(id int32) bool { return id >= 0 && int(id) < len(t.tokens) }

// Size returns the number of tokens. A model may have more rows than that: their ids mean nothing and must not be sampled.
func (t *Tokenizer) Size() int { return len(t.tokens) }

// Type returns a token's type, or 0 for an id outside the vocabulary.
func (t *Tokenizer) Type(id int32) int32 {
	if !t.valid(id) {
		return 0
	}
	if t.types == nil {
		return TypeNormal
	}
	return t.types[id]
}

// Notice is what a user of the file should know about its vocabulary, or "".
func (t *Tokenizer) Notice() string {
	if t.types != nil {
		return ""
	}
	return "the file has no tokenizer.ggml.token_type: every token counts as text, so special tokens of a prompt or template aren't recognised, and answers end at the file's end tokens (eos, eot) alone"
}

// IsControl reports whether id is a control token, one that steers the model and isn't text.
func (t *Tokenizer) IsControl(id int32) bool { return t.Type(id) == TypeControl }

// BOS returns the id that starts a sequence, or NoToken, and whether the file asks for it before a prompt. Encode doesn't add it.
func (t *Tokenizer) BOS() (id int32, add bool) { return t.bos, t.addBOS }

// EOS returns the id that the file names as the end of a sequence, or NoToken. To find an answer's end use IsEOG.
func (t *Tokenizer) EOS() int32 { return t.eos }

// IsEOG reports whether id ends an answer: EOS, EOT, <|im_end|> and <|endoftext|>, as far as the file has them.
func (t *Tokenizer) IsEOG(id int32) bool {
	for _, e := range t.eog {
		if e == id {
			return true
		}
	}
	return false
}

// EOG returns the ids for which IsEOG holds, ascending. The caller owns the slice.
func (t *Tokenizer) EOG() []int32 { return append([]int32(nil), t.eog...) }

// AddedToken returns the id of the control or user-defined token with this very text.
func (t *Tokenizer) AddedToken(text string) (id int32, ok bool) {
	start, end, id := t.added.find(text, 0)
	if start != 0 || end != len(text) || text == "" {
		return NoToken, false
	}
	return id, true
}
