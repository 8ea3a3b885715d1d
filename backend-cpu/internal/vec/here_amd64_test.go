package vec

import "github.com/klauspost/cpuid/v2"

func vectorHere() bool { return hasAssembly && cpuid.CPU.Supports(cpuid.AVX2, cpuid.FMA3, cpuid.F16C) }
