{{- define "netcraq.labels" -}}
app.kubernetes.io/name: netcraq
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end }}

{{- define "netcraq.image" -}}
image: {{ printf "%s:%s" .Values.image.repository .Values.image.tag | quote }}
imagePullPolicy: {{ .Values.image.pullPolicy }}
{{- end }}

{{- define "netcraq.controllers" -}}
{{- $addresses := list }}
{{- range .Values.controllers.members }}{{ $addresses = append $addresses .address }}{{ end }}
{{- join "," $addresses }}
{{- end }}
