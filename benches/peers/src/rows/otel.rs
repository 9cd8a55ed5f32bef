//! The two OpenTelemetry layers, with metrics only. The SDK aggregates the metrics; a periodic reader with its default
//! interval passes them to an exporter that discards them. The layers need different versions of the SDK.

use axum::Router;

use super::App;
use crate::driver::Runtimes;

/// Makes a module with an exporter for a version of the SDK.
macro_rules! sdk {
    ($module:ident, $sdk:ident) => {
        mod $module {
            use std::time::Duration;

            use $sdk::error::OTelSdkResult;
            use $sdk::metrics::data::ResourceMetrics;
            use $sdk::metrics::exporter::PushMetricExporter;
            use $sdk::metrics::{PeriodicReader, SdkMeterProvider, Temporality};

            struct DiscardAll;

            impl PushMetricExporter for DiscardAll {
                async fn export(&self, _: &ResourceMetrics) -> OTelSdkResult {
                    Ok(())
                }

                fn force_flush(&self) -> OTelSdkResult {
                    Ok(())
                }

                fn shutdown_with_timeout(&self, _: Duration) -> OTelSdkResult {
                    Ok(())
                }

                fn temporality(&self) -> Temporality {
                    Temporality::Cumulative
                }
            }

            pub(super) fn provider() -> SdkMeterProvider {
                let reader = PeriodicReader::builder(DiscardAll).build();
                SdkMeterProvider::builder().with_reader(reader).build()
            }
        }
    };
}

sdk!(sdk_032, opentelemetry_sdk_032);
sdk!(sdk_033, opentelemetry_sdk_033);

pub(super) fn axum_otel_metrics(routes: Router, _: &Runtimes) -> Result<App, String> {
    let provider = sdk_032::provider();
    let layer = axum_otel_metrics::HttpMetricsLayerBuilder::new()
        .with_provider(provider.clone())
        .build();
    Ok(App::keeping(routes.layer(layer), provider))
}

/// opentelemetry-instrumentation-tower, the layer of the OpenTelemetry project itself, without its spans.
pub(super) fn instrumentation_tower(routes: Router, _: &Runtimes) -> Result<App, String> {
    use opentelemetry_instrumentation_tower::http::server::LayerBuilder;
    let provider = sdk_033::provider();
    opentelemetry_033::global::set_meter_provider(provider.clone());
    let layer = LayerBuilder::builder().with_tracing(false).build();
    let layer = layer.map_err(|error| error.to_string())?;
    Ok(App::keeping(routes.layer(layer), provider))
}
