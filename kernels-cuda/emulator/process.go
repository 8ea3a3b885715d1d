package emulator

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
)

// Process is an emulator that runs (its commands: _emu/emulator.cc). Memory is never given back; launches are done when Launch returns. Its methods may be
// called from several goroutines; they panic if the process has died, which writes why on standard error.
type Process struct {
	mu  sync.Mutex
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Reader
}

// Start runs an emulator that Build gave.
func Start(exe string) (*Process, error) {
	cmd := exec.Command(exe)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, fmt.Errorf("emulator: %w", err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, fmt.Errorf("emulator: %w", err)
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("emulator: %w", err)
	}
	return &Process{cmd: cmd, in: in, out: bufio.NewReaderSize(out, 1<<20)}, nil
}

// Close ends the process. It is an error if a kernel wrote outside of its buffers.
func (p *Process) Close() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.send('C', nil)
	var err error
	if n := p.number(); n != 0 {
		err = fmt.Errorf("emulator: %d bytes outside of buffers were written", n)
	}
	return errors.Join(err, p.in.Close(), p.cmd.Wait())
}

// Alloc gives the address of n bytes of 0xff: NaNs.
func (p *Process) Alloc(n uint64) (address uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.send('A', nil, n)
	return p.number()
}

// Write copies data to an address.
func (p *Process) Write(address uint64, data []byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.send('W', data, address, uint64(len(data)))
}

// Read gives n bytes at an address.
func (p *Process) Read(address, n uint64) []byte {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.send('R', nil, address, n)
	return p.receive(int(n))
}

// Launch runs a kernel with its parameter struct: grid and block as x, y, z each. It reports whether there is such a kernel.
func (p *Process) Launch(name string, grid, block [3]uint32, shared uint32, params []byte) (ok bool) {
	b := append(binary.LittleEndian.AppendUint32(nil, uint32(len(name))), name...)
	for _, v := range []uint32{grid[0], grid[1], grid[2], block[0], block[1], block[2], shared, uint32(len(params))} {
		b = binary.LittleEndian.AppendUint32(b, v)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.send('L', append(b, params...))
	return binary.LittleEndian.Uint32(p.receive(4)) == 0
}

// send writes a command with its numbers, then data.
func (p *Process) send(command byte, data []byte, numbers ...uint64) {
	b := []byte{command}
	for _, n := range numbers {
		b = binary.LittleEndian.AppendUint64(b, n)
	}
	if _, err := p.in.Write(append(b, data...)); err != nil {
		panic(fmt.Errorf("emulator: the process died: %w", err))
	}
}

func (p *Process) receive(n int) []byte {
	b := make([]byte, n)
	if _, err := io.ReadFull(p.out, b); err != nil {
		panic(fmt.Errorf("emulator: the process died: %w", err))
	}
	return b
}

func (p *Process) number() uint64 { return binary.LittleEndian.Uint64(p.receive(8)) }
