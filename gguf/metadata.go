package gguf

import "fmt"

// A KV is a metadata key and its value.
type KV struct {
	Key   string
	Value Value
}

// Metadata lists the keys and values in the file's order; those of a split model's first file. The caller must not
// change the slice, nor use the values after Close.
func (f *File) Metadata() []KV { return f.kv }

// Value finds a metadata value. It must not be used after Close.
func (f *File) Value(key string) (Value, bool) {
	i, ok := f.keyIndex[key]
	if !ok || f.closed {
		return Value{}, false
	}
	return f.kv[i].Value, true
}

// Get reads the metadata value of key as a T (see [As] for what converts). ok is false where the key is absent, which
// is no error; err says that the value is there but has another type or doesn't fit.
//
//	layers, ok, err := gguf.Get[int](f, "qwen2.block_count")
func Get[T Gettable](f *File, key string) (v T, ok bool, err error) {
	if f.closed {
		return v, false, fmt.Errorf("gguf: key %q: %w", key, ErrClosed)
	}
	val, ok := f.Value(key)
	if !ok {
		return v, false, nil
	}
	v, err = As[T](val)
	if err != nil {
		return v, true, fmt.Errorf("gguf: key %q: %w", key, err)
	}
	return v, true, nil
}

// GetOr is Get with a default for an absent key.
func GetOr[T Gettable](f *File, key string, def T) (T, error) {
	v, ok, err := Get[T](f, key)
	if !ok && err == nil {
		return def, nil
	}
	return v, err
}

// Need is Get for a key that must be there: its absence is an error that wraps [ErrNoKey].
func Need[T Gettable](f *File, key string) (T, error) {
	v, ok, err := Get[T](f, key)
	if !ok && err == nil {
		err = fmt.Errorf("gguf: key %q: %w", key, ErrNoKey)
	}
	return v, err
}
