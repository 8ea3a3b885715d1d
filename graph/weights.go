package graph

import "slices"

// Weights is what a backend keeps of the tensors that it was given, told apart by model and name: a T each. The zero value has none.
type Weights[T any] struct{ all map[weightKey]registered[T] }

type weightKey struct{ model, name string }

type registered[T any] struct {
	meta Weight // with a shape of its own
	kept T
}

// Has reports whether w's model has a tensor of its name here.
func (s *Weights[T]) Has(w *Weight) bool {
	_, ok := s.all[weightKey{w.Model, w.Name}]
	return ok
}

// Add keeps x for w, whose metadata is copied.
func (s *Weights[T]) Add(w *Weight, x T) {
	if s.all == nil {
		s.all = map[weightKey]registered[T]{}
	}
	meta := *w
	meta.Shape = slices.Clone(w.Shape)
	s.all[weightKey{w.Model, w.Name}] = registered[T]{meta, x}
}

// Find gives what is kept for a weight of n. It is an error of n, for the named backend, if there is none or one of another type or shape.
func (s *Weights[T]) Find(backend string, n *Node, w *Weight) (x T, err error) {
	r, ok := s.all[weightKey{w.Model, w.Name}]
	switch {
	case !ok:
		return x, n.Errorf("%s: weight %q of model %q isn't registered", backend, w.Name, w.Model)
	case r.meta.Type != w.Type || !slices.Equal(r.meta.Shape, w.Shape):
		return x, n.Errorf("%s: weight %q is registered as %s %s, not %s %s", backend, w.Name, r.meta.Type, r.meta.Shape, w.Type, w.Shape)
	}
	return r.kept, nil
}

// Release forgets a model's tensors and gives what was kept for them, in no order.
func (s *Weights[T]) Release(model string) (kept []T) {
	for k, r := range s.all {
		if k.model == model {
			kept = append(kept, r.kept)
			delete(s.all, k)
		}
	}
	return kept
}

// ReleaseAll is Release for all models.
func (s *Weights[T]) ReleaseAll() (kept []T) {
	for _, r := range s.all {
		kept = append(kept, r.kept)
	}
	s.all = nil
	return kept
}
