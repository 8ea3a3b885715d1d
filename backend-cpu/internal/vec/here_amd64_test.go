package vec

import "github.com/klauspost/cpuid/v2"

func vectorHere() bool { return hasAssembly && cpuid.CPU.Supports(cpuid.AVX2, cpuid.FMA3, cpuid.F16C) }

func vector512Here() bool {
	return vectorHere() && cpuid.CPU.Supports(cpuid.AVX512F, cpuid.AVX512BW, cpuid.AVX512DQ, cpuid.AVX512VL)
}
