package kvformat

// Run is a range of consecutive cells of a cache: [Cell, Cell+N). A sequence's cells are a list of runs, its first cell first;
// the run table of a graph step (inputs seq_runs and runs) holds such lists.
type Run struct{ Cell, N int }
