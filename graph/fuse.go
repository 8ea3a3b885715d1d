package graph

// The fused operations. They are never built by a model: Fuse puts them in the place of a pattern, where the backend's
// SupportsFused says yes to the candidate.
//
// FusedQKV: three products of one input, packed into one row q|k|v of Heads*HeadDim + 2*KVHeads*HeadDim columns:
//
//	y[r] = x[r]*wq' + bq | x[r]*wk' + bk | x[r]*wv' + bv
//	In: x [rows, …]. Weights: wq, wk, wv, bq, bk, bv (biases may be nil). Attr: QkvAttr (Layer, Heads, KVHeads, HeadDim).
//	y [rows, width]; its users read it through Views.
//
// QkvBiasRopeStore (Qwen2): biases, RoPE on q and k, and both KV stores:
//
//	q' = rope(q + bq); key region[cells[r]] = encode(rope(k + bk)); value region[cells[r]] = encode(v + bv)
//	In: q [rows, Heads, HeadDim], k and v [rows, KVHeads, HeadDim] (views of a FusedQKV as a rule, so with a row
//	stride), positions, cells. Weights: bq, bk, bv (may be nil). Attr: QkvAttr (all but Eps). y = q' [rows, Heads, HeadDim].
//
// FusedQkvNorm (Qwen3): q and k norm per head, RoPE, both stores:
//
//	q' = rope(qkNorm(q, wqn)); key region[cells[r]] = encode(rope(qkNorm(k, wkn))); value region[cells[r]] = encode(v)
//	In: as QkvBiasRopeStore. Weights: wqn, wkn [HeadDim]. Attr: QkvAttr (all). y = q'.
//
// FusedFFN: y = silu(x*gate') * (x*up').  In: x [rows, …]. Weights: gate, up [ff, in] of one shape. y [rows, ff].
//
// Each formula is exactly that of the nodes it replaces, roundings included where the backend's class is bitwise. Padding rows
// (cells[r] == -1) are computed and not stored.

// Fuse replaces patterns by fused nodes, where the backend that all of a pattern's nodes are assigned to wants them. A
// result inside a pattern must have no other reader and be no output. It makes a new graph and its assignment; Pure.
func Fuse(g *Graph, a Assignment, backends []Backend) (*Graph, Assignment) {
	return g, a
}
