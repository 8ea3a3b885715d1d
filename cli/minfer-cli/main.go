// Command minfer-cli runs Qwen models from GGUF files.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/alecthomas/kong"

	backendcuda "github.com/minfer-go/minfer/backend-cuda"
	"github.com/minfer-go/minfer/cli/internal/env"
)

// Exit codes.
const (
	exitError       = 1
	exitUsage       = 2
	exitInterrupted = 130
)

type commands struct {
	Run      runCmd      `cmd:"" help:"Answer a prompt."`
	Bench    benchCmd    `cmd:"" help:"Measure speed: tokens a second, GB/s and GMAC/s."`
	Inspect  inspectCmd  `cmd:"" help:"Show a model file: metadata, tensors, memory."`
	Tokenize tokenizeCmd `cmd:"" help:"Show the token ids of a text, or the text of ids."`
	Template templateCmd `cmd:"" help:"Render a conversation with a model's chat template."`
	Logits   logitsCmd   `cmd:"" help:"Compute the logits after each of a list of tokens."`
	Env      envCmd      `cmd:"" help:"Show the environment variables that minfer-cli reads."`
	Version  versionCmd  `cmd:"" help:"Show the version."`
}

// app is what commands are run with.
type app struct {
	ctx            context.Context
	stdin          io.Reader
	stdout, stderr io.Writer
	cuda           backendcuda.Options // what the environment's gates are laid over: zero but in tests
}

// notice tells the user something worth knowing.
func (a *app) notice(s string) { fmt.Fprintf(a.stderr, "minfer-cli: %s\n", s) }

// usageError makes the exit code that of a wrong call.
type usageError struct{ error }

func usage(format string, args ...any) error { return usageError{fmt.Errorf(format, args...)} }

func main() { os.Exit(mainCode()) }

func mainCode() int {
	var c commands
	code := -1
	parser := kong.Must(&c, kong.Name("minfer-cli"), kong.WithHyphenPrefixedParameters(true), kong.Exit(func(n int) { code = n }),
		kong.Description("Runs Qwen2, Qwen2.5 and Qwen3 models from GGUF files.\n\nExample: minfer-cli run \"Tell me a story about a brave mouse and a lamp.\""))
	kctx, err := parser.Parse(os.Args[1:])
	if code >= 0 { // --help
		return code
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "minfer-cli: %v (minfer-cli --help shows how)\n", err)
		return exitUsage
	}
	ctx, stop := interruptible()
	defer stop()
	if kctx.Command() != "env" { // which shows the malformed value
		err = env.Check()
	}
	if err == nil {
		err = kctx.Run(&app{ctx: ctx, stdin: os.Stdin, stdout: os.Stdout, stderr: os.Stderr})
	}
	var wrong usageError
	switch {
	case err == nil:
		return 0
	case errors.Is(err, context.Canceled):
		return exitInterrupted
	case errors.Is(err, syscall.EPIPE):
		return exitError
	case errors.As(err, &wrong):
		fmt.Fprintf(os.Stderr, "minfer-cli: %v\n", err)
		return exitUsage
	}
	fmt.Fprintf(os.Stderr, "minfer-cli: %v\n", err)
	return exitError
}

// interruptible gives a context that ends with Ctrl-C or SIGTERM. A second one ends the process, whatever it is busy with.
func interruptible() (context.Context, context.CancelFunc) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop)
	return ctx, stop
}
