package main

import (
	"archive/tar"
	"bytes"
	"debug/elf"
	"encoding/binary"
	"errors"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"github.com/google/go-containerregistry/pkg/v1/validate"
)

const ref = "netcraq:test"

var about = labels{version: "1.2.3", revision: "0123abc"}

// program returns the smallest ELF file: a header, one program header of the given type, and a text.
func program(t *testing.T, machine elf.Machine, kind elf.ProgType, text string) []byte {
	t.Helper()
	var file bytes.Buffer
	header := elf.Header64{Type: uint16(elf.ET_EXEC), Machine: uint16(machine), Version: uint32(elf.EV_CURRENT),
		Phoff: 64, Ehsize: 64, Phentsize: 56, Phnum: 1}
	copy(header.Ident[:], elf.ELFMAG)
	header.Ident[elf.EI_CLASS], header.Ident[elf.EI_DATA] = byte(elf.ELFCLASS64), byte(elf.ELFDATA2LSB)
	header.Ident[elf.EI_VERSION] = byte(elf.EV_CURRENT)
	for _, part := range []any{header, elf.Prog64{Type: uint32(kind)}, []byte(text)} {
		if err := binary.Write(&file, binary.LittleEndian, part); err != nil {
			t.Fatal(err)
		}
	}
	return file.Bytes()
}

// folder returns a directory with the programs of one architecture.
func folder(t *testing.T, arch string, machine elf.Machine, kind elf.ProgType) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, arch), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, name := range product {
		if err := os.WriteFile(filepath.Join(dir, arch, name), program(t, machine, kind, name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// packed returns the path of an image's archive, and the programs in it.
func packed(t *testing.T, arch string) (path string, files map[string]string) {
	t.Helper()
	path, err := pack(folder(t, arch, machines[arch], elf.PT_LOAD), arch, ref, product, about)
	if err != nil {
		t.Fatal(err)
	}
	files = make(map[string]string)
	for _, name := range product {
		files[name] = string(program(t, machines[arch], elf.PT_LOAD, name))
	}
	return path, files
}

// unpack writes the files of an archive below a new directory.
func unpack(t *testing.T, path string) string {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	dir := t.TempDir()
	for name, file := range contents(t, f) {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(file), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// contents returns the files of an archive by their names. Every file has the time of all and belongs to root.
func contents(t *testing.T, r io.Reader) map[string]string {
	t.Helper()
	files, archive := make(map[string]string), tar.NewReader(r)
	for {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		if err != nil {
			t.Fatal(err)
		}
		if !header.ModTime.Equal(created) || header.Uid != 0 || header.Gid != 0 {
			t.Errorf("%s: time %v, owner %d:%d", header.Name, header.ModTime, header.Uid, header.Gid)
		}
		text, err := io.ReadAll(archive)
		if err != nil {
			t.Fatal(err)
		}
		if _, twice := files[header.Name]; twice {
			t.Errorf("%s is there twice", header.Name)
		}
		files[header.Name] = string(text)
	}
}

// checkImage compares an image that was read back with its programs.
func checkImage(t *testing.T, img v1.Image, arch string, want map[string]string) {
	t.Helper()
	if err := validate.Image(img); err != nil {
		t.Fatal(err)
	}
	config, err := img.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	if config.OS != "linux" || config.Architecture != arch || !config.Created.Equal(created) ||
		!slices.Equal(config.Config.Entrypoint, []string{"/netcraq"}) || config.Config.User != "" {
		t.Errorf("configuration: %+v", config)
	}
	labels := map[string]string{"org.opencontainers.image.title": "NetCRAQ",
		"org.opencontainers.image.version": "1.2.3", "org.opencontainers.image.revision": "0123abc"}
	if !maps.Equal(config.Config.Labels, labels) {
		t.Errorf("labels: %v", config.Config.Labels)
	}
	layers, err := img.Layers()
	if err != nil || len(layers) != 1 {
		t.Fatalf("%d layers: %v", len(layers), err)
	}
	r, err := layers[0].Uncompressed()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if files := contents(t, r); !maps.Equal(files, want) {
		t.Errorf("the layer has %q", slices.Sorted(maps.Keys(files)))
	}
}

// TestLayout reads archives back as an OCI layout.
func TestLayout(t *testing.T) {
	for arch := range machines {
		path, files := packed(t, arch)
		index, err := layout.ImageIndexFromPath(unpack(t, path))
		if err != nil {
			t.Fatal(err)
		}
		if err := validate.Index(index); err != nil {
			t.Fatal(err)
		}
		found, err := index.IndexManifest()
		if err != nil || len(found.Manifests) != 1 {
			t.Fatalf("%+v, %v", found, err)
		}
		described := found.Manifests[0]
		const full = "docker.io/library/netcraq:test"
		names := map[string]string{containerdName: full, ociName: full}
		if described.MediaType != types.OCIManifestSchema1 || described.ArtifactType != "" ||
			described.Platform.String() != "linux/"+arch || !maps.Equal(described.Annotations, names) {
			t.Errorf("%s: the index describes %+v", arch, described)
		}
		img, err := index.Image(described.Digest)
		if err != nil {
			t.Fatal(err)
		}
		manifest, err := img.Manifest()
		if err != nil || manifest.Config.MediaType != types.OCIConfigJSON || manifest.Layers[0].MediaType != types.OCILayer {
			t.Errorf("%s: manifest %+v, %v", arch, manifest, err)
		}
		checkImage(t, img, arch, files)
	}
}

// TestDocker reads an archive back in Docker's own format.
func TestDocker(t *testing.T) {
	tag, err := name.NewTag(ref)
	if err != nil {
		t.Fatal(err)
	}
	path, files := packed(t, "amd64")
	img, err := tarball.ImageFromPath(path, &tag)
	if err != nil {
		t.Fatal(err)
	}
	checkImage(t, img, "amd64", files)
}

// TestSameBytes: equal programs make equal archives, also from files of other times and in another folder.
func TestSameBytes(t *testing.T) {
	var first []byte
	for range 2 {
		path, _ := packed(t, "arm64")
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if first != nil && !bytes.Equal(first, text) {
			t.Error("the archives differ")
		}
		first = text
	}
}

// TestWrongPrograms: programs that could not run in the image are refused, and leave no archive.
func TestWrongPrograms(t *testing.T) {
	for _, c := range []struct {
		dir, arch, ref, want string
	}{
		{folder(t, "amd64", elf.EM_X86_64, elf.PT_INTERP), "amd64", ref, "CGO_ENABLED=0"},
		{folder(t, "amd64", elf.EM_AARCH64, elf.PT_LOAD), "amd64", ref, "set GOARCH"},
		{folder(t, "s390x", elf.EM_S390, elf.PT_LOAD), "s390x", ref, "use amd64 or arm64"},
		{t.TempDir(), "amd64", ref, "no such file"},
		{folder(t, "amd64", elf.EM_X86_64, elf.PT_LOAD), "amd64", "NetCRAQ", "repository"},
	} {
		if _, err := pack(c.dir, c.arch, c.ref, product, about); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v instead of %q", c.arch, err, c.want)
		}
		if left, _ := filepath.Glob(filepath.Join(c.dir, "*.tar*")); left != nil {
			t.Errorf("%s is left", left)
		}
	}
}

// TestFullName: the names are those that kubelets ask for.
func TestFullName(t *testing.T) {
	for short, want := range map[string]string{
		"netcraq:latest":         "docker.io/library/netcraq:latest",
		"some/netcraq:1":         "docker.io/some/netcraq:1",
		"registry.test/netcraq":  "registry.test/netcraq:latest",
		"localhost:5000/n/c:1.2": "localhost:5000/n/c:1.2",
	} {
		if have, err := fullName(short); err != nil || have != want {
			t.Errorf("%s: %s, %v", short, have, err)
		}
	}
}
