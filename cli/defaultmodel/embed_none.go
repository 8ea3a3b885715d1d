//go:build minfer_no_default_model

package defaultmodel

const file = ""
