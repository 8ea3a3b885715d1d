package sys

import (
	"errors"
	"testing"
)

// A failure injected by name replaces that call alone, with zero values beside it, and nil functions stay nil.
func TestIntercept(t *testing.T) {
	base := &Table{
		Init:        func() Result { return Success },
		DeviceCount: func() (int, Result) { return 3, Success },
	}
	var seen []string
	tab := Intercept(base, func(name string) Result {
		seen = append(seen, name)
		if name == "DeviceCount" && len(seen) == 3 {
			return OutOfMemory
		}
		return Success
	})
	if r := tab.Init(); r != Success {
		t.Fatalf("Init: %d", r)
	}
	if n, r := tab.DeviceCount(); n != 3 || r != Success {
		t.Fatalf("DeviceCount passes through: got %d, %d", n, r)
	}
	if n, r := tab.DeviceCount(); n != 0 || r != OutOfMemory {
		t.Fatalf("DeviceCount, second call: got %d, %d", n, r)
	}
	if n, r := base.DeviceCount(); n != 3 || r != Success {
		t.Fatalf("the wrapped table changed: got %d, %d", n, r)
	}
	if tab.GraphUpload != nil {
		t.Fatal("an absent optional function became present")
	}
}

// Open never panics: it gives a table whose required functions are all there, or an UnavailableError.
func TestOpen(t *testing.T) {
	tab, err := Open()
	if err == nil {
		if tab.Init == nil || tab.Launch == nil || tab.GraphLaunch == nil {
			t.Fatal("a required function is nil")
		}
		return
	}
	var u *UnavailableError
	if !errors.As(err, &u) || u.Reason == "" || tab != nil {
		t.Fatalf("want an UnavailableError with a reason and no table, got %v, %v", tab, err)
	}
}
