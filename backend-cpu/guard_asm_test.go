//go:build !noasm

package backendcpu

const assembly = true
