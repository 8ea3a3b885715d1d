//go:build !unix

package main

import "os"

// peakMemory isn't known here.
func peakMemory(*os.ProcessState) int64 { return 0 }

func startPeak() int64 { return 0 }
