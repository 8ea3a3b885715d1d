package gguf

import (
	"errors"
	"fmt"
	"io/fs"
	"regexp"
)

// The metadata keys of split models, as llama.cpp's llama-gguf-split writes them.
const (
	keySplitNo      = "split.no"            // this part's number, from 0
	keySplitCount   = "split.count"         // number of parts
	keySplitTensors = "split.tensors.count" // tensors of all parts together
)

// ShardPath is the name of part no (from 1) of a model split into count files: PREFIX-00001-of-00003.gguf.
func ShardPath(prefix string, no, count int) string {
	return fmt.Sprintf("%s-%05d-of-%05d.gguf", prefix, no, count)
}

var shardName = regexp.MustCompile(`^(.+)-([0-9]{5})-of-([0-9]{5})\.gguf$`)

type splitInfo struct {
	no, count int
	tensors   int // -1 where the file doesn't say
}

// split reads the split keys; count is 1 for a model of its own.
func (s *shard) split() (splitInfo, error) {
	info := splitInfo{count: 1, tensors: -1}
	for _, kv := range s.kv {
		var p *int
		switch kv.Key {
		case keySplitNo:
			p = &info.no
		case keySplitCount:
			p = &info.count
		case keySplitTensors:
			p = &info.tensors
		default:
			continue
		}
		n, err := As[int](kv.Value)
		if err != nil {
			return info, corrupt("key %q: %v", kv.Key, err)
		}
		*p = n
	}
	if info.count == 0 {
		info.count = 1 // llama.cpp takes 0 as not split.
	}
	if info.count < 1 || info.count > 99999 || info.no < 0 || info.no >= info.count {
		return info, corrupt("keys %q, %q: part %d of %d", keySplitNo, keySplitCount, info.no, info.count)
	}
	return info, nil
}

// withSiblings opens the other parts of the model that s belongs to, and gives all in order. It closes what it opened,
// and s, where it fails.
func withSiblings(s *shard) (shards []*shard, err error) {
	defer func() {
		if err != nil {
			s.src.Close()
			for _, o := range shards {
				if o != nil && o != s {
					o.src.Close()
				}
			}
		}
	}()
	info, err := s.split()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", s.path, err)
	}
	if info.count == 1 {
		return []*shard{s}, nil
	}
	m := shardName.FindStringSubmatch(s.path)
	if m == nil || s.path != ShardPath(m[1], info.no+1, info.count) {
		return nil, unsupported("%s: it is part %d of a model split into %d files and must be named like %s to find the others",
			s.path, info.no+1, info.count, ShardPath("NAME", info.no+1, info.count))
	}
	found := 0
	for i := range info.count {
		part := s
		if i != info.no {
			part, err = openPart(ShardPath(m[1], i+1, info.count), i, info)
			if err != nil {
				return shards, err
			}
		}
		shards = append(shards, part)
		found += len(part.tensors)
	}
	if info.tensors >= 0 && found != info.tensors {
		return shards, corrupt("%s: the %d parts hold %d tensors, but key %q says %d", s.path, info.count, found, keySplitTensors, info.tensors)
	}
	return shards, nil
}

// openPart opens part no of a split model and checks that it says to be that part.
func openPart(path string, no int, want splitInfo) (*shard, error) {
	s, err := openShard(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%s: part %d of %d isn't there: %w", path, no+1, want.count, ErrMissingShard)
	}
	if err != nil {
		return nil, err
	}
	got, err := s.split()
	if err == nil && (got.no != no || got.count != want.count) {
		err = corrupt("it says to be part %d of %d, want part %d of %d", got.no+1, got.count, no+1, want.count)
	}
	if err != nil {
		s.src.Close()
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return s, nil
}
