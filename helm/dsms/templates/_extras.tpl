{{- /* A map whose values are replaced by those of another one; maps within it are merged, and null removes a key. Takes
       base and over. */}}
{{- define "dsms.merged" -}}
{{- $base := .base }}
{{- range $key, $value := .over | default dict }}
{{- if kindIs "invalid" $value }}
{{- $_ := unset $base $key }}
{{- else if and (kindIs "map" $value) (kindIs "map" (get $base $key)) }}
{{- range $inner, $part := $value }}
{{- $_ := set (get $base $key) $inner $part }}
{{- end }}
{{- else }}
{{- $_ := set $base $key $value }}
{{- end }}
{{- end }}
{{- toYaml $base }}
{{- end }}

{{- /* The annotations of an object, if there are any; takes the root, and own ones. */}}
{{- define "dsms.annotations" -}}
{{- with merge (dict) (.own | default dict) (.root.Values.commonAnnotations | default dict) }}
annotations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{- /* The security contexts of a component's pod and of its container; take the root and the component's values. */}}
{{- define "dsms.podSecurityOf" -}}
{{- include "dsms.merged" (dict "base" (fromYaml (include "dsms.podSecurity" .root)) "over" .values.podSecurityContext) }}
{{- end }}

{{- define "dsms.containerSecurityOf" -}}
{{- include "dsms.merged" (dict "base" (fromYaml (include "dsms.containerSecurity" .root)) "over" .values.containerSecurityContext) }}
{{- end }}

{{- /* The numbers of a probe; takes a component's values, the name of the probe, and its defaults. */}}
{{- define "dsms.probe" -}}
{{- include "dsms.merged" (dict "base" .base "over" (get (.values.probes | default dict) .name)) }}
{{- end }}

{{- define "dsms.extraEnv" -}}
{{- with .extraEnv }}
{{- toYaml . }}
{{- end }}
{{- end }}

{{- define "dsms.extraMounts" -}}
{{- with .extraVolumeMounts }}
{{- toYaml . }}
{{- end }}
{{- end }}

{{- define "dsms.extraVolumes" -}}
{{- with .extraVolumes }}
{{- toYaml . }}
{{- end }}
{{- end }}

{{- define "dsms.envFrom" -}}
{{- with .extraEnvFrom }}
envFrom:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{- /* Nodes on which pods of a Job or a test may run: those of the coordinator. */}}
{{- define "dsms.coordinatorNodes" -}}
{{- with .Values.coordinator.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.coordinator.tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{- /* topologySpreadConstraints of a component. One without a labelSelector is about the component's own pods. */}}
{{- define "dsms.spread" -}}
{{- $own := dict "matchLabels" (merge (fromYaml (include "dsms.selector" .root)) (dict "app.kubernetes.io/component" .component)) }}
{{- range .values.topologySpreadConstraints }}
- {{ toYaml (hasKey . "labelSelector" | ternary . (set (deepCopy .) "labelSelector" $own)) | nindent 2 | trim }}
{{- end }}
{{- end }}
