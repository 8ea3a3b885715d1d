package kernelscuda

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// FileName is the image's name where no path is given.
const FileName = "minfer-kernels.fatbin"

// Find reads the kernels' image from path or, if that is empty, takes the first there is: embedded in this program (build tag
// minfer_embed_kernels), beside the executable, in the folder minfer of the user's cache. A path that can't be read is an
// error; if there is none anywhere the error says how to make one. Errors wrap ErrUnavailable.
func Find(path string) ([]byte, error) {
	if path != "" {
		image, err := os.ReadFile(path)
		if err != nil {
			return nil, fmt.Errorf("kernelscuda: kernels' image: %w: %w", ErrUnavailable, err)
		}
		return check(path, image)
	}
	if len(embedded) > 0 {
		return check("embedded", embedded)
	}
	var tried []string
	for _, dir := range []func() (string, error){executableDir, cacheDir} {
		d, err := dir()
		if err != nil {
			continue // a system without such a folder
		}
		p := filepath.Join(d, FileName)
		image, err := os.ReadFile(p)
		if err == nil {
			return check(p, image)
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("kernelscuda: kernels' image: %w: %w", ErrUnavailable, err)
		}
		tried = append(tried, p)
	}
	return nil, fmt.Errorf("kernelscuda: no image of the kernels in %q, nor embedded: run `make -C kernels-cuda kernels` (it says what it needs) and copy build/%s to one of them: %w",
		tried, FileName, ErrUnavailable)
}

// fatbinMagic begins every file that fatbinary writes.
var fatbinMagic = []byte{0x50, 0xed, 0x55, 0xba}

func check(where string, image []byte) ([]byte, error) {
	if len(image) < 16 || string(image[:4]) != string(fatbinMagic) {
		return nil, fmt.Errorf("kernelscuda: %s: not a CUDA fatbin: run `make -C kernels-cuda kernels`: %w", where, ErrUnavailable)
	}
	return image, nil
}

func executableDir() (string, error) {
	exe, err := os.Executable()
	if err != nil {
		return "", err
	}
	if real, err := filepath.EvalSymlinks(exe); err == nil {
		exe = real
	}
	return filepath.Dir(exe), nil
}

func cacheDir() (string, error) {
	dir, err := os.UserCacheDir()
	return filepath.Join(dir, "minfer"), err
}
