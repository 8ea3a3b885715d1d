//go:build !minfer_no_default_model

package defaultmodel

import _ "embed"

//go:embed minfer-story-21m-q4_k_m.gguf
var file string
