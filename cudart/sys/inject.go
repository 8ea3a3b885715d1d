package sys

import "reflect"

// Intercept returns a copy of t whose every function first asks before(name), with the field's name. If that answers
// Success the call goes through; any other Result is returned in its place, with zero values beside it. Optional
// functions that are nil stay nil. It costs a microsecond a call: for tests and fault injection only.
func Intercept(t *Table, before func(name string) Result) *Table {
	out := *t
	v := reflect.ValueOf(&out).Elem()
	for i := range v.NumField() {
		name, f := v.Type().Field(i).Name, v.Field(i)
		if f.IsNil() {
			continue
		}
		inner, ft := reflect.ValueOf(f.Interface()), f.Type()
		f.Set(reflect.MakeFunc(ft, func(args []reflect.Value) []reflect.Value {
			r := before(name)
			if r == Success {
				return inner.Call(args)
			}
			results := make([]reflect.Value, ft.NumOut())
			for j := range results {
				results[j] = reflect.Zero(ft.Out(j))
			}
			results[len(results)-1] = reflect.ValueOf(r)
			return results
		}))
	}
	return &out
}
