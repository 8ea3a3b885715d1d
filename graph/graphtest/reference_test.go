package graphtest_test

import (
	"testing"

	"github.com/minfer-go/minfer/graph"
	"github.com/minfer-go/minfer/graph/graphtest"
)

// The suite itself, run on the reference in several guises: memory that the host cannot see, and every fused operation.
func TestConformanceOfReference(t *testing.T) {
	graphtest.Run(t, func() graph.Backend {
		return graphtest.NewReference(graphtest.ReferenceOptions{Device: true, Fused: func(*graph.Node) bool { return true }})
	}, graphtest.Options{RowInvariant: true})
}
