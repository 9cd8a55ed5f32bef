//! The context of a request in a log without route templates: the method, and the path without its query. In the path,
//! `{id}` replaces each segment that looks like an id: a number, a UUID, or 16 or more hexadecimal digits. A request
//! without a method or a path, such as one of a port scanner, is `<unmatched>`.

use http::Method;

/// A segment with at least this number of hexadecimal digits counts as an id, not as a word.
const LONG_HEX: usize = 16;

/// Writes the context of a request line, `GET /users/7 HTTP/1.1`, to `context`.
pub(crate) fn write_line(request: &[u8], context: &mut String) {
    let parts = std::str::from_utf8(request).ok();
    let parts = parts.and_then(|request| request.split_once(' '));
    let (method, target) = parts.unwrap_or_default();
    write(
        method,
        target.split(' ').next().unwrap_or_default(),
        context,
    );
}

/// Writes the context of a method and a request target to `context`.
pub(crate) fn write(method: &str, target: &str, context: &mut String) {
    context.clear();
    if push(method, target, context).is_none() {
        context.clear();
        context.push_str("<unmatched>");
    }
}

fn push(method: &str, target: &str, context: &mut String) -> Option<()> {
    // A request to a proxy has the whole URL.
    let path = match target.split_once("://") {
        Some((scheme, server)) if !scheme.contains('/') => &server[server.find('/')?..],
        _ => target,
    };
    let path = path.split(['?', '#']).next()?;
    if !path.starts_with('/') {
        return None;
    }
    context.push_str(method_name(method)?);
    context.push(' ');
    for segment in path[1..].split('/') {
        context.push('/');
        context.push_str(if is_id(segment.as_bytes()) {
            "{id}"
        } else {
            segment
        });
    }
    Some(())
}

/// One of HTTP's nine methods or `OTHER`, as the layer names methods; `None` if the text is not a method.
fn method_name(method: &str) -> Option<&str> {
    const METHODS: &str = "GET POST PUT DELETE HEAD OPTIONS PATCH CONNECT TRACE";
    if METHODS.split(' ').any(|known| known == method) {
        return Some(method);
    }
    Method::from_bytes(method.as_bytes()).ok().map(|_| "OTHER")
}

fn is_id(segment: &[u8]) -> bool {
    let is_hex = |part: &[u8]| part.iter().all(u8::is_ascii_hexdigit);
    let is_number = !segment.is_empty() && segment.iter().all(u8::is_ascii_digit);
    let is_uuid = || {
        let parts = segment.split(|byte| *byte == b'-');
        let lens = [8, 4, 4, 4, 12];
        segment.len() == 36
            && parts.clone().map(<[u8]>::len).eq(lens)
            && parts.into_iter().all(is_hex)
    };
    is_number || (segment.len() >= LONG_HEX && is_hex(segment)) || is_uuid()
}
