//go:build !noasm

package vec

const hasAssembly = true
