package sys

// UnavailableError says why there is no driver to call: no library (Symbol empty), or one without a function that is
// needed (Symbol set: the driver is too old), or a program built without cgo.
type UnavailableError struct {
	Reason string
	Symbol string
	NoCgo  bool // the program can't open any driver
}

func (e *UnavailableError) Error() string { return e.Reason }
