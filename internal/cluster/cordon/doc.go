// Package cordon asks a Kubernetes API server which machines are cordoned.
package cordon
