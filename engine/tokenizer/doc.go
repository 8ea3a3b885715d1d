// Package tokenizer turns text into token ids and back: byte-level BPE as GPT-2, Qwen2, Qwen3 and SmolLM2 use it.
//
// # What is supported
//
// GGUF files with tokenizer.ggml.model = "gpt2" and tokenizer.ggml.pre = "qwen2" or "smollm". Anything else is refused by
// name (ErrUnsupported): a wrong pre-tokenizer gives ids that look right and answers that are subtly worse.
//
// # How text becomes ids
//
//  1. Added tokens are cut out: user-defined ones (type 4, e.g. <think>) always, control ones (type 3, e.g. <|im_end|>) only
//     where the caller says so, so that a user's text stays literal by default. Leftmost match first, the longest of those.
//  2. What lies between is cut into words by a scanner written by hand for the regular expression of the vocabulary; the
//     expressions stand beside the scanners in pretoken_qwen2.go and pretoken_smollm.go. The rest is never cut by a word's border.
//  3. Each word's bytes become 256 base symbols, and pairs of neighbours are merged, the pair that comes first in the file's list
//     of merges first, the leftmost of equals first, until no neighbours can merge (Sennrich et al., arXiv 1508.07909).
//
// Every step is linear in the text, but for a factor log(longest word) in step 3.
//
// # Where implementations differ, and what this one does
//
//   - Text is not normalised. HF's Qwen tokenizers apply NFC first; a GGUF file doesn't say so, and other GGUF engines don't.
//     Text that is in NFC already, as nearly all is, gives the same ids.
//   - A control token is what the file types as one (3), never what its name suggests: the ordinary Qwen entries "</s>" and
//     "<unk>" are plain text, as in HF and unlike llama.cpp.
//   - Bytes that aren't valid UTF-8 are encoded one by one, as if each were a punctuation sign, so Decode(Encode(x)) == x for
//     any bytes x, if the vocabulary has a token for each of the 256 bytes. Qwen's has. SmolLM2's lacks 21, 13 of which
//     never occur in UTF-8; such a byte is dropped, as HF does.
//   - Letters (\p{L}) and numbers (\p{N}) are those of Go's package unicode (Unicode 15.0 in Go 1.26). HF's regex library may be some
//     versions newer: characters assigned since then are "other" here. This moves a word's border only; the text survives.
//   - Of tokens with equal text the first that a merge may yield is used; all of them decode.
//   - A merge that would yield or consume a control token is ignored: no plain text may become one.
//   - BOS is never added by Encode; BOS says whether the file asks for it.
//
// # Streams
//
// One token may hold part of a character. Stream holds bytes back until a code point is whole, so what it gives out is always
// valid UTF-8; what can't become valid turns into U+FFFD, one for each maximal invalid prefix, as browsers and Python do.
//
// A Tokenizer is immutable after New and safe for concurrent use. A Stream belongs to one goroutine.
package tokenizer
